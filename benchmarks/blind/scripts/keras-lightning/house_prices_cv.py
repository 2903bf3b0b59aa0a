import gc
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.metrics import mean_squared_error
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import tensorflow as tf
from tensorflow.keras.callbacks import EarlyStopping, ReduceLROnPlateau
from tensorflow.keras.layers import BatchNormalization, Dense, Dropout, Input
from tensorflow.keras.models import Sequential
from tensorflow.keras.optimizers import Adam

SEED = 2024
FOLDS = 5
PATH = "../input/house-prices"

tf.keras.utils.set_random_seed(SEED)

train = pd.read_csv(f"{PATH}/train.csv")
test = pd.read_csv(f"{PATH}/test.csv")
sub = pd.read_csv(f"{PATH}/sample_submission.csv")

y = np.log1p(train["SalePrice"].values.astype("float32"))
X = train.drop(columns=["Id", "SalePrice"])
X_test = test.drop(columns=["Id"])

for df in (X, X_test):
    df["TotalSF"] = df["TotalBsmtSF"].fillna(0) + df["1stFlrSF"] + df["2ndFlrSF"]
    df["Age"] = df["YrSold"] - df["YearBuilt"]

num_cols = X.select_dtypes("number").columns.tolist()
cat_cols = [c for c in X.columns if c not in num_cols]


def make_prep():
    return ColumnTransformer(
        [
            ("num", make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), num_cols),
            (
                "cat",
                make_pipeline(
                    SimpleImputer(strategy="constant", fill_value="none"),
                    OneHotEncoder(handle_unknown="ignore", sparse_output=False),
                ),
                cat_cols,
            ),
        ]
    )


def build(n_in, target_mean):
    model = Sequential(
        [
            Input((n_in,)),
            Dense(256, activation="relu"),
            BatchNormalization(),
            Dropout(0.3),
            Dense(64, activation="relu"),
            Dropout(0.2),
            Dense(1, bias_initializer=tf.keras.initializers.Constant(target_mean)),
        ]
    )
    model.compile(optimizer=Adam(learning_rate=1e-3), loss="mse", metrics=["mae"])
    return model


oof = np.zeros(len(X))
pred = np.zeros(len(X_test))
scores = []

kf = KFold(n_splits=FOLDS, shuffle=True, random_state=SEED)
for fold, (tr, va) in enumerate(kf.split(X, y)):
    tf.keras.backend.clear_session()
    prep = make_prep()
    X_tr = prep.fit_transform(X.iloc[tr]).astype("float32")
    X_va = prep.transform(X.iloc[va]).astype("float32")
    X_te = prep.transform(X_test).astype("float32")

    model = build(X_tr.shape[1], y[tr].mean())
    model.fit(
        X_tr,
        y[tr],
        validation_data=(X_va, y[va]),
        epochs=200,
        batch_size=64,
        verbose=0,
        callbacks=[
            EarlyStopping(monitor="val_loss", patience=20, restore_best_weights=True),
            ReduceLROnPlateau(monitor="val_loss", factor=0.5, patience=8),
        ],
    )
    oof[va] = model.predict(X_va, verbose=0).ravel()
    pred += model.predict(X_te, verbose=0).ravel() / FOLDS
    score = np.sqrt(mean_squared_error(y[va], oof[va]))
    scores.append(score)
    print(f"fold {fold}: RMSLE {score:.4f}")
    del model
    gc.collect()

print(f"mean of folds {np.mean(scores):.4f}, out of fold {np.sqrt(mean_squared_error(y, oof)):.4f}")
sub["SalePrice"] = np.expm1(pred)
sub.to_csv("submission.csv", index=False)
