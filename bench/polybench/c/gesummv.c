void kernel(double A[restrict N][N], double B[restrict N][N], double x[restrict N], double y[restrict N]) {
    for (int i = 0; i < N; i++) {
        double s = 0, t = 0;
        for (int j = 0; j < N; j++) {
            s += A[i][j] * x[j];
            t += B[i][j] * x[j];
        }
        y[i] = 1.5 * s + 1.25 * t;
    }
}
