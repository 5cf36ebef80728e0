"""Gaps of one column, filled alone and together with the other columns of a file.

    python benchmarks/together.py FILE.csv COLUMN COLUMN... [--rows 1500] [--every 1] [--start 0] [--seed 7]

Six gaps of 30 rows are cut into each column, at its own places. Printed are the root mean squared error of the filled
values, the share of them in 95 % prediction intervals, and the flagged rows, for `wolf.filter_frame` column by column
and with `together=True`; and, where scikit-learn is installed, of its imputers, which return no intervals.
"""

import argparse

import numpy as np
import pandas as pd

import wolf

NUM_GAPS, GAP_ROWS, MARGIN = 6, 30, 50


def main() -> None:
    """Compare both on one file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file")
    parser.add_argument("columns", nargs="+")
    for name, default in (("rows", 1500), ("every", 1), ("start", 0), ("seed", 7)):
        parser.add_argument(f"--{name}", type=int, default=default)
    args = parser.parse_args()
    frame = pd.read_csv(args.file, na_values="NULL").iloc[:: args.every]
    frame = frame[args.columns].iloc[args.start : args.start + args.rows].reset_index(drop=True).astype(float)
    rng, cut, masks = np.random.default_rng(args.seed), frame.copy(), {}
    for column in args.columns:
        mask = np.zeros(len(frame), bool)
        for first in rng.integers(MARGIN, len(frame) - MARGIN - GAP_ROWS, NUM_GAPS):
            mask[first : first + GAP_ROWS] = True
        masks[column] = mask & frame[column].notna().to_numpy()
        cut.loc[mask, column] = np.nan
    found = {
        name: wolf.filter_frame(cut, values=args.columns, together=together)
        for name, together in (("alone", False), ("together", True))
    }
    filled = imputed(cut)
    for column in args.columns:
        truth = frame[column][masks[column]]
        for name, out in found.items():
            rows = out[masks[column]]
            error = np.sqrt(np.mean((rows[f"{column}_cleaned"] - truth) ** 2))
            inside = rows[f"{column}_prediction_lower"].le(truth) & rows[f"{column}_prediction_upper"].ge(truth)
            flagged = int(out[f"{column}_outlier"].sum())
            print(f"{column:<12}{name:<12}error {error:<10.4g}inside {inside.mean():.2f}  flagged {flagged}")
        for name, table in filled.items():
            error = np.sqrt(np.mean((table[column][masks[column]] - truth) ** 2))
            print(f"{column:<12}{name:<12}error {error:<10.4g}")


def imputed(cut: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Fill the gaps by other means: straight lines, and the imputers of scikit-learn."""
    found = {"line": cut.interpolate(limit_direction="both")}
    try:
        from sklearn.experimental import enable_iterative_imputer  # noqa: F401
        from sklearn.impute import IterativeImputer, KNNImputer
    except ImportError:
        return found
    for name, imputer in (("KNN", KNNImputer()), ("iterative", IterativeImputer(random_state=0))):
        found[name] = pd.DataFrame(imputer.fit_transform(cut), columns=cut.columns)
    return found


if __name__ == "__main__":
    main()
