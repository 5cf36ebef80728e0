// A Kalman filter as a programmer would write it by hand for one size: what the machine can do without a library.
//
// Sizes are known to the compiler, matrices are dense and on the stack, nothing is allocated. The textbook's equations:
//
//     x <- F x,  P <- F P F' + Q,  S = H P H' + R,  K = P H' S^-1,  x <- x + K (y - H x),  P <- P - K S K'
//
// and back, with G = P F' (F P F' + Q)^-1:  x <- x + G (x_next - F x),  P <- P + G (P_next - F P F' - Q) G'.

#include <cmath>
#include <cstdint>

namespace {

template <int A, int B, int C>
void multiply(const double (&x)[A][B], const double (&y)[B][C], double (&out)[A][C]) {
    for (int i = 0; i < A; ++i) {
        for (int j = 0; j < C; ++j) out[i][j] = 0.0;
        for (int k = 0; k < B; ++k)
            for (int j = 0; j < C; ++j) out[i][j] += x[i][k] * y[k][j];
    }
}

template <int A, int B, int C>  // x y'
void multiply_turned(const double (&x)[A][B], const double (&y)[C][B], double (&out)[A][C]) {
    for (int i = 0; i < A; ++i)
        for (int j = 0; j < C; ++j) {
            double sum = 0.0;
            for (int k = 0; k < B; ++k) sum += x[i][k] * y[j][k];
            out[i][j] = sum;
        }
}

template <int N>  // S = L L'
void factor(const double (&s)[N][N], double (&l)[N][N]) {
    for (int j = 0; j < N; ++j) {
        double pivot = s[j][j];
        for (int k = 0; k < j; ++k) pivot -= l[j][k] * l[j][k];
        l[j][j] = std::sqrt(pivot);
        const double inverse = 1.0 / l[j][j];
        for (int i = j + 1; i < N; ++i) {
            double sum = s[i][j];
            for (int k = 0; k < j; ++k) sum -= l[i][k] * l[j][k];
            l[i][j] = sum * inverse;
        }
    }
}

template <int A, int N>  // every row r of x becomes that of r S^-1
void divide(double (&x)[A][N], const double (&l)[N][N]) {
    for (int i = 0; i < A; ++i) {
        for (int j = 0; j < N; ++j) {
            for (int k = 0; k < j; ++k) x[i][j] -= x[i][k] * l[j][k];
            x[i][j] /= l[j][j];
        }
        for (int j = N - 1; j >= 0; --j) {
            for (int k = j + 1; k < N; ++k) x[i][j] -= x[i][k] * l[k][j];
            x[i][j] /= l[j][j];
        }
    }
}

template <int D, int M>
struct Model {
    double F[D][D], H[M][D], Q[D][D], R[M][M];
};

template <int D>
struct State {
    double x[D], P[D][D];
};

template <int D, int M>
void predict(const Model<D, M>& model, State<D>& s) {
    double x[D], FP[D][D];
    for (int i = 0; i < D; ++i) {
        x[i] = 0.0;
        for (int k = 0; k < D; ++k) x[i] += model.F[i][k] * s.x[k];
    }
    multiply(model.F, s.P, FP);
    multiply_turned(FP, model.F, s.P);
    for (int i = 0; i < D; ++i) {
        s.x[i] = x[i];
        for (int j = 0; j < D; ++j) s.P[i][j] += model.Q[i][j];
    }
}

template <int D, int M>
void update(const Model<D, M>& model, State<D>& s, const double* y) {
    double PH[D][M], S[M][M], L[M][M], K[D][M], error[M];
    multiply_turned(s.P, model.H, PH);
    multiply(model.H, PH, S);
    for (int i = 0; i < M; ++i) {
        error[i] = y[i];
        for (int k = 0; k < D; ++k) error[i] -= model.H[i][k] * s.x[k];
        for (int j = 0; j < M; ++j) S[i][j] += model.R[i][j];
    }
    factor(S, L);
    for (int i = 0; i < D; ++i)
        for (int j = 0; j < M; ++j) K[i][j] = PH[i][j];
    divide(K, L);
    for (int i = 0; i < D; ++i) {
        for (int k = 0; k < M; ++k) s.x[i] += K[i][k] * error[k];
        for (int j = 0; j < D; ++j)
            for (int k = 0; k < M; ++k) s.P[i][j] -= K[i][k] * PH[j][k];
    }
}

template <int D, int M>
void filter(const Model<D, M>& model, State<D> s, const double* ys, int64_t steps, State<D>* out) {
    for (int64_t t = 0; t < steps; ++t) {
        predict(model, s);
        update(model, s, ys + t * M);
        out[t] = s;
    }
}

template <int D, int M>
void smooth(const Model<D, M>& model, int64_t steps, State<D>* states) {
    for (int64_t t = steps - 2; t >= 0; --t) {
        State<D>& here = states[t];
        const State<D>& next = states[t + 1];
        State<D> ahead = here;
        double G[D][D], L[D][D], apart[D][D], Ga[D][D], change[D][D];
        predict(model, ahead);
        factor(ahead.P, L);
        multiply_turned(here.P, model.F, G);
        divide(G, L);
        for (int i = 0; i < D; ++i)
            for (int j = 0; j < D; ++j) apart[i][j] = next.P[i][j] - ahead.P[i][j];
        multiply(G, apart, Ga);
        multiply_turned(Ga, G, change);
        for (int i = 0; i < D; ++i) {
            for (int k = 0; k < D; ++k) here.x[i] += G[i][k] * (next.x[k] - ahead.x[k]);
            for (int j = 0; j < D; ++j) here.P[i][j] += change[i][j];
        }
    }
}

}  // namespace

// For each size: a series, its smoother, and one measurement for each of many states. `model` holds F, H, Q, R, then x
// and P of the prior; `out` x and P of each step.
#define FOR_SIZE(D, M)                                                                                           \
    extern "C" void filter_##D##_##M(const double* model, const double* ys, int64_t steps, double* out) {        \
        const auto& m = *reinterpret_cast<const Model<D, M>*>(model);                                            \
        const auto& prior = *reinterpret_cast<const State<D>*>(model + sizeof(m) / sizeof(double));              \
        filter<D, M>(m, prior, ys, steps, reinterpret_cast<State<D>*>(out));                                     \
    }                                                                                                            \
    extern "C" void smooth_##D##_##M(const double* model, int64_t steps, double* out) {                          \
        smooth<D, M>(*reinterpret_cast<const Model<D, M>*>(model), steps, reinterpret_cast<State<D>*>(out));     \
    }                                                                                                            \
    extern "C" void keys_##D##_##M(const double* model, const double* ys, int64_t count, double* states) {       \
        const auto& m = *reinterpret_cast<const Model<D, M>*>(model);                                            \
        for (int64_t i = 0; i < count; ++i) {                                                                    \
            auto& s = reinterpret_cast<State<D>*>(states)[i];                                                    \
            predict<D, M>(m, s);                                                                                 \
            update<D, M>(m, s, ys + i * M);                                                                      \
        }                                                                                                        \
    }

// SIZES
