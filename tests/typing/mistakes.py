"""Common mistakes. mypy and pyright must each report an error on every marked line, and on no other.

This file is not run, but checked by `tests/project/test_typing.py`.
"""

import numpy as np

import wolf

model = wolf.models.local_level(level_var=0.1, obs_var=1.0)
ys = np.zeros((10, 1))


def misspelt_names() -> None:
    wolf.fitler(model, ys)  # wrong
    wolf.certifi(model)  # wrong
    wolf.OnlineRegresor()  # wrong
    wolf.weights.Hubert()  # wrong
    wolf.models.local_levle(level_var=0.1, obs_var=1.0)  # wrong
    wolf.metrics.rsme(ys, ys)  # wrong


def misspelt_results() -> None:
    out = wolf.filter(model, ys)
    out.menas  # wrong
    out.outlier  # wrong
    wolf.smooth(out).mean  # wrong
    wolf.forecast(out, steps=3).uper  # wrong
    wolf.fit(wolf.models.local_level, ys).params  # wrong
    wolf.certify(model).entires  # wrong
    info = wolf.Online(model).step(1.0)
    info.wieght  # wrong
    info.outliers  # wrong
    wolf.Online(model).covs  # wrong


def misspelt_options() -> None:
    wolf.filter(model, ys, methd="KF")  # wrong
    wolf.Online(model).step(1.0, r=np.eye(1))  # wrong
    wolf.WoLF(wolf.IMQ(), iteration=2)  # wrong
    wolf.KF(froms="sqrt")  # wrong
    wolf.IMQ(d=4.0)  # wrong
    wolf.models.local_level(level_var=0.1)  # wrong
    wolf.LinearModel(F=np.eye(1), Q=np.eye(1), R=np.eye(1), mean=np.zeros(1), cov=np.eye(1))  # wrong


def wrong_words() -> None:
    out = wolf.filter(model, ys)
    wolf.filter(model, ys, dtype="float16")  # wrong
    wolf.filter(model, ys, save="mean")  # wrong
    wolf.Online(model, dtype="single")  # wrong
    wolf.KF(form="jospeh")  # wrong
    wolf.WoLF(form="cholesky")  # wrong
    wolf.GaussianFilter(form="square root")  # wrong
    wolf.MahalanobisIMQ(metric="P")  # wrong
    wolf.Learned(r_uncertainty="factor 3")  # wrong
    wolf.Learned(sensors="every")  # wrong
    wolf.fit(wolf.models.local_level, ys, score="student")  # wrong
    out.to_frame("numpy")  # wrong


def wrong_kinds() -> None:
    out = wolf.filter(model, ys)
    wolf.filter(model, ys, method=3.14)  # wrong
    wolf.filter(model, ys, method=wolf.IMQ(c=4.0))  # wrong
    wolf.filter(model, ys, method=wolf.WoLF)  # wrong
    wolf.filter(model, ys, save=7)  # wrong
    wolf.filter(model, ys, key="seed")  # wrong
    wolf.filter(ys, model)  # wrong
    wolf.filter(model, None)  # wrong
    wolf.Online(model, 3.14)  # wrong
    wolf.IMQ(c="four")  # wrong
    wolf.StudentWeight(dof="four")  # wrong
    wolf.WoLF(weight="nonsense")  # wrong
    wolf.WoLF(wolf.IMQ)  # wrong
    wolf.PerCoordinate(3.0)  # wrong
    wolf.KF(linearization="unscented")  # wrong
    wolf.EKF(noise=wolf.IMQ(c=4.0))  # wrong
    wolf.smooth(model)  # wrong
    wolf.smooth(ys)  # wrong
    wolf.forecast(out)  # wrong
    wolf.forecast(out, steps="ten")  # wrong
    wolf.sample_paths(out, num=2.5, key=0)  # wrong
    wolf.methods.make("KF").update(model)  # wrong
