static double e[I][J], f[J][L];
void kernel(double A[restrict I][K], double B[restrict K][J], double C[restrict J][M], double D[restrict M][L],
            double G[restrict I][L]) {
    for (int i = 0; i < I; i++)
        for (int j = 0; j < J; j++) {
            e[i][j] = 0;
            for (int k = 0; k < K; k++) e[i][j] += A[i][k] * B[k][j];
        }
    for (int j = 0; j < J; j++)
        for (int l = 0; l < L; l++) {
            f[j][l] = 0;
            for (int m = 0; m < M; m++) f[j][l] += C[j][m] * D[m][l];
        }
    for (int i = 0; i < I; i++)
        for (int l = 0; l < L; l++) {
            G[i][l] = 0;
            for (int j = 0; j < J; j++) G[i][l] += e[i][j] * f[j][l];
        }
}
