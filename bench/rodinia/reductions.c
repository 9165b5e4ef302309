// The loops that stand for each kernel of reductions.cu.
#include <math.h>
#include <stddef.h>
#define OVER_BLOCKS _Pragma("omp parallel for schedule(static)") for (int b = 0; b < blocks; b++)

void sums(const float *x, float *out, int blocks, int size) {
  OVER_BLOCKS {
    float s = 0;
    for (int i = 0; i < size; i++) s += x[(size_t)b * size + i];
    out[b] = s;
  }
}
float total(const float *x, int n) {
  float s = 0;
#pragma omp parallel for reduction(+ : s)
  for (int i = 0; i < n; i++) s += x[i];
  return s;
}
float dot(const float *x, const float *y, int n) {
  float s = 0;
#pragma omp parallel for reduction(+ : s)
  for (int i = 0; i < n; i++) s += x[i] * y[i];
  return s;
}
void largest(const int *x, int *out, int blocks, int size) {
  OVER_BLOCKS {
    int m = x[(size_t)b * size];
    for (int i = 1; i < size; i++) m = x[(size_t)b * size + i] > m ? x[(size_t)b * size + i] : m;
    out[b] = m;
  }
}
void softmax(const float *x, float *out, int blocks, int columns) {
  OVER_BLOCKS {
    const float *row = x + (size_t)b * columns;
    float *to = out + (size_t)b * columns, most = -INFINITY, sum = 0;
    for (int i = 0; i < columns; i++) most = row[i] > most ? row[i] : most;
    for (int i = 0; i < columns; i++) sum += to[i] = expf(row[i] - most);
    for (int i = 0; i < columns; i++) to[i] /= sum;
  }
}
void layernorm(const float *x, float *out, int blocks, int columns) {
  OVER_BLOCKS {
    const float *row = x + (size_t)b * columns;
    float mean = 0, spread = 0;
    for (int i = 0; i < columns; i++) mean += row[i];
    mean /= columns;
    for (int i = 0; i < columns; i++) spread += (row[i] - mean) * (row[i] - mean);
    float scale = 1 / sqrtf(spread / columns + 1e-5f);
    for (int i = 0; i < columns; i++) out[(size_t)b * columns + i] = (row[i] - mean) * scale;
  }
}
void scans(const float *x, float *out, int blocks, int size, int exclusive) {
  OVER_BLOCKS {
    float s = 0;
    for (int i = 0; i < size; i++) {
      float v = x[(size_t)b * size + i];
      out[(size_t)b * size + i] = exclusive ? s : s + v;
      s += v;
    }
  }
}
