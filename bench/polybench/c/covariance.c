static double y[N][M], mean[M];
void kernel(double X[restrict N][M], double O[restrict M][M]) {
    for (int j = 0; j < M; j++) {
        mean[j] = 0;
        for (int i = 0; i < N; i++) mean[j] += X[i][j];
        mean[j] /= N;
    }
    for (int i = 0; i < N; i++)
        for (int j = 0; j < M; j++) y[i][j] = X[i][j] - mean[j];
    for (int i = 0; i < M; i++)
        for (int j = 0; j < M; j++) {
            O[i][j] = 0;
            for (int k = 0; k < N; k++) O[i][j] += y[k][i] * y[k][j];
            O[i][j] /= N - 1;
        }
}
