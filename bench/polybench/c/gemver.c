void kernel(double A[restrict N][N], double u1[restrict N], double v1[restrict N], double u2[restrict N],
            double v2[restrict N], double y[restrict N], double z[restrict N], double B[restrict N][N],
            double x[restrict N], double w[restrict N]) {
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) B[i][j] = A[i][j] + u1[i] * v1[j] + u2[i] * v2[j];
    for (int i = 0; i < N; i++) {
        x[i] = z[i];
        for (int j = 0; j < N; j++) x[i] += 1.25 * B[j][i] * y[j];
    }
    for (int i = 0; i < N; i++) {
        w[i] = 0;
        for (int j = 0; j < N; j++) w[i] += 1.5 * B[i][j] * x[j];
    }
}
