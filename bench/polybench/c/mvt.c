void kernel(double A[restrict N][N], double a[restrict N], double b[restrict N], double y1[restrict N],
            double y2[restrict N], double x1[restrict N], double x2[restrict N]) {
    for (int i = 0; i < N; i++) {
        x1[i] = a[i];
        for (int j = 0; j < N; j++) x1[i] += A[i][j] * y1[j];
    }
    for (int i = 0; i < N; i++) {
        x2[i] = b[i];
        for (int j = 0; j < N; j++) x2[i] += A[j][i] * y2[j];
    }
}
