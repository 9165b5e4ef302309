static double t[I][J];
void kernel(double A[restrict I][K], double B[restrict K][J], double C[restrict J][L], double D[restrict I][L],
            double O[restrict I][L]) {
    for (int i = 0; i < I; i++)
        for (int j = 0; j < J; j++) {
            t[i][j] = 0;
            for (int k = 0; k < K; k++) t[i][j] += 1.5 * A[i][k] * B[k][j];
        }
    for (int i = 0; i < I; i++)
        for (int l = 0; l < L; l++) {
            O[i][l] = 1.25 * D[i][l];
            for (int j = 0; j < J; j++) O[i][l] += t[i][j] * C[j][l];
        }
}
