//! Cholesky factors of small symmetric positive definite matrices: the exact side of the linear policies.
//!
//! A = L L^T with L lower triangular. Written here since ndarray has no decompositions and a LAPACK binding would be
//! a large dependency for matrices of tens of rows. A matrix that is not positive definite gives None.

use ndarray::{Array1, Array2, ArrayView1, ArrayView2};

/// The lower factor of a symmetric positive definite matrix.
#[derive(Debug, Clone)]
pub(super) struct Cholesky {
    lower: Array2<f64>,
}

impl Cholesky {
    /// Factorises; reads the lower triangle only.
    pub(super) fn of(matrix: ArrayView2<'_, f64>) -> Option<Self> {
        let n = matrix.nrows();
        let mut lower = Array2::zeros((n, n));
        for row in 0..n {
            for column in 0..=row {
                let known: f64 = (0..column).map(|k| lower[[row, k]] * lower[[column, k]]).sum();
                let rest = matrix[[row, column]] - known;
                if row == column {
                    if !rest.is_finite() || rest <= 0.0 {
                        return None;
                    }
                    lower[[row, row]] = f64::sqrt(rest);
                } else {
                    lower[[row, column]] = rest / lower[[column, column]];
                }
            }
        }
        Some(Self { lower })
    }

    /// Solves A x = b.
    pub(super) fn solve(&self, b: ArrayView1<'_, f64>) -> Array1<f64> {
        let mut x = b.to_owned();
        for row in 0..x.len() {
            let known: f64 = (0..row).map(|k| self.lower[[row, k]] * x[k]).sum();
            x[row] = (x[row] - known) / self.lower[[row, row]];
        }
        for row in (0..x.len()).rev() {
            let known: f64 = (row + 1..x.len()).map(|k| self.lower[[k, row]] * x[k]).sum();
            x[row] = (x[row] - known) / self.lower[[row, row]];
        }
        x
    }

    /// Writes L z to `out`: a standard normal z becomes a draw from N(0, A). The slices have as many numbers as rows.
    pub(super) fn multiply(&self, z: &[f64], out: &mut [f64]) {
        for (row, out) in self.lower.rows().into_iter().zip(out) {
            *out = row.iter().zip(z).map(|(l, z)| l * z).sum();
        }
    }

    /// A^-1.
    pub(super) fn inverse(&self) -> Array2<f64> {
        let n = self.lower.nrows();
        let mut inverse = Array2::eye(n);
        for mut column in inverse.columns_mut() {
            let solved = self.solve(column.view());
            column.assign(&solved);
        }
        inverse
    }
}

#[cfg(test)]
mod tests {
    use ndarray::array;

    use super::*;

    #[test]
    fn solves_and_inverts_a_known_matrix() {
        let a = array![[4.0, 2.0], [2.0, 3.0]];
        let factor = Cholesky::of(a.view()).unwrap();
        let x = factor.solve(array![2.0, 5.0].view());
        assert!((&a.dot(&x) - &array![2.0, 5.0]).iter().all(|e| e.abs() < 1e-12));
        let mut column = [0.0; 2];
        factor.multiply(&[1.0, 0.0], &mut column);
        assert_eq!(column, [2.0, 1.0]);
        let expected = array![[0.375, -0.25], [-0.25, 0.5]];
        assert!((&factor.inverse() - &expected).iter().all(|e| e.abs() < 1e-12));
    }

    #[test]
    fn refuses_a_matrix_that_is_not_positive_definite() {
        assert!(Cholesky::of(array![[1.0, 2.0], [2.0, 1.0]].view()).is_none());
        assert!(Cholesky::of(array![[f64::NAN]].view()).is_none());
    }
}
