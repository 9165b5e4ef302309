// API misuse
void run() {
  int *h = new int[4];
  if (BUG) cudaFree(h);
  delete[] h;
}
