// Every format, operation and order of cuSPARSE's matrices against loops over a dense copy.
#include <cmath>
#include <complex>
#include <cstdio>
#include <vector>
#include <cusparse.h>
using std::vector;
typedef std::complex<double> Complex;
const int rows = 7, columns = 5, width = 3;
double at(int i) { return ((i * 7919 + 13) % 101) / 50.0 - 1; }
void set(double &x, int i) { x = at(i); }
void set(float &x, int i) { x = (float)at(i); }
void set(Complex &x, int i) { x = Complex(at(i), at(i + 1000)); }
template <typename T> T conjugate(T x) { return x; }
Complex conjugate(Complex x) { return std::conj(x); }
template <typename T> struct Sparse {  // about a third of the entries, in order of rows or of columns
  vector<int> offsets, row, column;
  vector<T> values, dense = vector<T>(rows * columns);
  Sparse(bool by_rows, int base) {
    int outer = by_rows ? rows : columns, inner = by_rows ? columns : rows;
    for (int o = 0; o < outer; o++) {
      offsets.push_back((int)values.size() + base);
      for (int i = 0; i < inner; i++) {
        int r = by_rows ? o : i, c = by_rows ? i : o;
        if ((r * 5 + c * 3) % 7 > 2) continue;
        set(dense[r * columns + c], r * 31 + c);
        values.push_back(dense[r * columns + c]), row.push_back(r + base), column.push_back(c + base);
      }
    }
    offsets.push_back((int)values.size() + base);
  }
};
template <typename T> T element(const vector<T> &m, int across, cusparseOperation_t op, int i, int j) {
  if (op == CUSPARSE_OPERATION_NON_TRANSPOSE) return m[i * across + j];
  return op == CUSPARSE_OPERATION_TRANSPOSE ? m[j * across + i] : conjugate(m[j * across + i]);
}
template <typename T> double products(cudaDataType type, int format, int operation, int other, int order, int base) {
  Sparse<T> a(format != 1, base);
  cusparseIndexBase_t from = (cusparseIndexBase_t)base;
  cusparseOperation_t op = (cusparseOperation_t)operation, of = (cusparseOperation_t)other;
  cusparseHandle_t handle;
  cusparseSpMatDescr_t matrix;
  cusparseCreate(&handle);
  int count = (int)a.values.size();
  const auto index = CUSPARSE_INDEX_32I;
  if (format == 0) cusparseCreateCsr(&matrix, rows, columns, count, a.offsets.data(), a.column.data(), a.values.data(), index, index, from, type);
  if (format == 1) cusparseCreateCsc(&matrix, rows, columns, count, a.offsets.data(), a.row.data(), a.values.data(), index, index, from, type);
  if (format == 2) cusparseCreateCoo(&matrix, rows, columns, count, a.row.data(), a.column.data(), a.values.data(), index, from, type);
  int m = op ? columns : rows, k = op ? rows : columns;
  vector<T> b(k * width), c(m * width), x(k), y(m), b_given(k * width), c_given(m * width), y_before(m);
  T alpha, beta;
  set(alpha, 3), set(beta, 4);
  for (int i = 0; i < k * width; i++) set(b[i], i + 50);  // k x width, or transposed: width x k, row by row
  for (int i = 0; i < m * width; i++) set(c[i], i + 90);
  for (int i = 0; i < k; i++) set(x[i], i + 9);
  for (int i = 0; i < m; i++) set(y[i], i + 4);
  y_before = y;
  int b_rows = of ? width : k, b_columns = of ? k : width;
  bool by_columns = order == CUSPARSE_ORDER_COL;
  for (int i = 0; i < b_rows; i++)
    for (int j = 0; j < b_columns; j++) b_given[by_columns ? j * b_rows + i : i * b_columns + j] = b[i * b_columns + j];
  for (int i = 0; i < m; i++)
    for (int j = 0; j < width; j++) c_given[by_columns ? j * m + i : i * width + j] = c[i * width + j];
  cusparseDnVecDescr_t xs, ys;
  cusparseDnMatDescr_t bs, cs;
  cusparseCreateDnVec(&xs, k, x.data(), type), cusparseCreateDnVec(&ys, m, y.data(), type);
  cusparseCreateDnMat(&bs, b_rows, b_columns, by_columns ? b_rows : b_columns, b_given.data(), type, (cusparseOrder_t)order);
  cusparseCreateDnMat(&cs, m, width, by_columns ? m : width, c_given.data(), type, (cusparseOrder_t)order);
  size_t bytes;
  cusparseSpMV_bufferSize(handle, op, &alpha, matrix, xs, &beta, ys, type, CUSPARSE_SPMV_ALG_DEFAULT, &bytes);
  if (cusparseSpMV(handle, op, &alpha, matrix, xs, &beta, ys, type, CUSPARSE_SPMV_ALG_DEFAULT, nullptr)) return 1;
  if (cusparseSpMM(handle, op, of, &alpha, matrix, bs, &beta, cs, type, CUSPARSE_SPMM_ALG_DEFAULT, nullptr)) return 2;
  double worst = 0;
  for (int i = 0; i < m; i++) {
    T sum = 0;
    for (int l = 0; l < k; l++) sum += element(a.dense, columns, op, i, l) * x[l];
    worst = fmax(worst, std::abs(alpha * sum + beta * y_before[i] - y[i]));
    for (int j = 0; j < width; j++) {
      T total = 0;
      for (int l = 0; l < k; l++) total += element(a.dense, columns, op, i, l) * element(b, b_columns, of, l, j);
      worst = fmax(worst, std::abs(alpha * total + beta * c[i * width + j] - c_given[by_columns ? j * m + i : i * width + j]));
    }
  }
  cusparseSpMV(handle, op, &alpha, matrix, ys, &beta, ys, type, CUSPARSE_SPMV_ALG_DEFAULT, nullptr);  // sizes do not fit
  return worst;
}
double triangles(bool is_upper, int operation, bool is_unit) {
  const int n = 6;
  vector<int> offsets, column;
  vector<double> values, dense(n * n), x(n), y(n), back(n);
  for (int i = 0; i < n; i++) {
    offsets.push_back((int)values.size()), x[i] = at(i + 3);
    for (int j = 0; j < n; j++) {  // the other triangle is there as well, and not to be looked at
      if (i != j && (i + 2 * j) % 3 == 0) continue;
      double value = i == j ? 3 + at(i) : at(i * n + j);
      values.push_back(value), column.push_back(j);
      if (i == j ? true : is_upper ? j > i : j < i) dense[i * n + j] = i == j && is_unit ? 1 : value;
    }
  }
  offsets.push_back((int)values.size());
  cusparseSpMatDescr_t a;
  cusparseDnVecDescr_t xs, ys;
  cusparseSpSVDescr_t d;
  cusparseFillMode_t fill = is_upper ? CUSPARSE_FILL_MODE_UPPER : CUSPARSE_FILL_MODE_LOWER;
  cusparseDiagType_t diagonal = is_unit ? CUSPARSE_DIAG_TYPE_UNIT : CUSPARSE_DIAG_TYPE_NON_UNIT;
  double alpha = 2;
  const auto index = CUSPARSE_INDEX_32I;
  cusparseCreateCsr(&a, n, n, (int64_t)values.size(), offsets.data(), column.data(), values.data(), index, index, CUSPARSE_INDEX_BASE_ZERO, CUDA_R_64F);
  cusparseSpMatSetAttribute(a, CUSPARSE_SPMAT_FILL_MODE, &fill, sizeof fill);
  cusparseSpMatSetAttribute(a, CUSPARSE_SPMAT_DIAG_TYPE, &diagonal, sizeof diagonal);
  cusparseCreateDnVec(&xs, n, x.data(), CUDA_R_64F), cusparseCreateDnVec(&ys, n, y.data(), CUDA_R_64F);
  cusparseSpSV_createDescr(&d);
  cusparseSpSV_solve(nullptr, (cusparseOperation_t)operation, &alpha, a, xs, ys, CUDA_R_64F, CUSPARSE_SPSV_ALG_DEFAULT, d);
  double worst = 0;
  for (int i = 0; i < n; i++) {
    for (int j = 0; j < n; j++) back[i] += element(dense, n, (cusparseOperation_t)operation, i, j) * y[j];
    worst = fmax(worst, fabs(back[i] - alpha * x[i]));
  }
  return worst;
}
double factors() {  // of a matrix with all its entries: nothing is left out, so L U is the matrix
  const int n = 5;
  vector<int> offsets, column;
  vector<double> values;
  for (int i = 0; i < n; i++) {
    offsets.push_back(i * n);
    for (int j = 0; j < n; j++) column.push_back(j), values.push_back(at(i * n + j) + (i == j ? 5 : 0));
  }
  offsets.push_back(n * n);
  vector<double> given = values;
  cusparseMatDescr_t d;
  csrilu02Info_t info;
  cusparseCreateMatDescr(&d), cusparseCreateCsrilu02Info(&info);
  cusparseDcsrilu02(nullptr, n, n * n, d, values.data(), offsets.data(), column.data(), info, CUSPARSE_SOLVE_POLICY_NO_LEVEL, nullptr);
  double worst = 0;
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) {
      double sum = 0;
      for (int k = 0; k <= i && k <= j; k++) sum += (k == i ? 1 : values[i * n + k]) * values[k * n + j];
      worst = fmax(worst, fabs(sum - given[i * n + j]));
    }
  return worst;
}
int main() {
  double worst = 0, worst_float = 0;
  for (int format = 0; format < 3; format++)
    for (int op = 0; op < 3; op++)
      for (int of = 0; of < 3; of++)
        for (int order = 1; order < 3; order++)
          for (int base = 0; base < 2; base++) {
            worst = fmax(worst, products<double>(CUDA_R_64F, format, op, of, order, base));
            worst = fmax(worst, products<Complex>(CUDA_C_64F, format, op, of, order, base));
            worst_float = fmax(worst_float, products<float>(CUDA_R_32F, format, op, of, order, base));
          }
  for (int i = 0; i < 12; i++) worst = fmax(worst, triangles(i & 1, i / 4, i & 2));
  worst = fmax(worst, factors());
  Sparse<double> a(true, 1), turned(false, 1);
  vector<int> offsets(columns + 1), row(a.values.size()), coo(a.values.size()), back(rows + 1);
  vector<double> values(a.values.size());
  cusparseCsr2cscEx2(nullptr, rows, columns, (int)a.values.size(), a.values.data(), a.offsets.data(), a.column.data(),
                     values.data(), offsets.data(), row.data(), CUDA_R_64F, CUSPARSE_ACTION_NUMERIC,
                     CUSPARSE_INDEX_BASE_ONE, CUSPARSE_CSR2CSC_ALG_DEFAULT, nullptr);
  cusparseXcsr2coo(nullptr, a.offsets.data(), (int)a.values.size(), rows, coo.data(), CUSPARSE_INDEX_BASE_ONE);
  cusparseXcoo2csr(nullptr, coo.data(), (int)a.values.size(), rows, back.data(), CUSPARSE_INDEX_BASE_ONE);
  printf("%d %d %d %d\n", worst < 1e-12, worst_float < 1e-5,
         values == turned.values && offsets == turned.offsets && row == turned.row, coo == a.row && back == a.offsets);
  cusparseDnVecDescr_t half;
  cusparseSpMatDescr_t matrix;
  cusparseCreateDnVec(&half, columns, nullptr, CUDA_R_16F);
  cusparseCreateCoo(&matrix, rows, columns, 0, nullptr, nullptr, nullptr, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO, CUDA_R_32F);
  puts(cusparseGetErrorName(cusparseSpMV(nullptr, CUSPARSE_OPERATION_NON_TRANSPOSE, nullptr, matrix, half, nullptr, half,
                                         CUDA_R_32F, CUSPARSE_SPMV_ALG_DEFAULT, nullptr)));
}
