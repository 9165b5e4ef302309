void kernel(double L[restrict N][N], double x[restrict N]) {
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < i; j++) x[i] = x[i] - L[i][j] * x[j];
        x[i] = x[i] / L[i][i];
    }
}
