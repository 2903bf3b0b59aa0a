import csv
import random

import numpy as np
import tensorflow as tf
from keras import Input, Model, callbacks, layers, losses, metrics, optimizers, utils
from sklearn.metrics import f1_score
from sklearn.model_selection import train_test_split

utils.set_random_seed(1)

MAX_TOKENS = 20000
MAX_LEN = 200


def read_reviews(path):
    texts, labels = [], []
    with open(path, newline="", encoding="utf-8") as handle:
        for row in csv.DictReader(handle):
            texts.append(row["review"])
            labels.append(1 if row["sentiment"] == "positive" else 0)
    return np.array(texts, dtype=object), np.array(labels, dtype="float32")


def make_vectorizer(train_texts):
    vectorizer = layers.TextVectorization(
        max_tokens=MAX_TOKENS, output_mode="int", output_sequence_length=MAX_LEN
    )
    vectorizer.adapt(tf.data.Dataset.from_tensor_slices(train_texts.astype(str)).batch(256))
    return vectorizer


def make_dataset(texts, labels, vectorizer, training=False):
    ds = tf.data.Dataset.from_tensor_slices((texts.astype(str), labels))
    if training:
        ds = ds.shuffle(len(texts), seed=1)
    ds = ds.batch(64)
    ds = ds.map(lambda t, y: (vectorizer(t), y), num_parallel_calls=tf.data.AUTOTUNE)
    return ds.prefetch(tf.data.AUTOTUNE)


def build_model():
    tokens = Input(shape=(MAX_LEN,), dtype="int64")
    x = layers.Embedding(MAX_TOKENS, 128, mask_zero=True)(tokens)
    x = layers.SpatialDropout1D(0.2)(x)
    x = layers.Bidirectional(layers.LSTM(64, return_sequences=True))(x)
    x = layers.Bidirectional(layers.LSTM(32))(x)
    x = layers.Dense(32, activation="relu")(x)
    x = layers.Dropout(0.4)(x)
    output = layers.Dense(1, activation="sigmoid")(x)
    return Model(tokens, output)


def train(model, train_ds, val_ds, class_weight):
    model.compile(
        optimizer=optimizers.Adam(learning_rate=1e-3, clipnorm=1.0),
        loss=losses.BinaryCrossentropy(),
        metrics=[metrics.BinaryAccuracy(name="acc"), metrics.AUC(name="auc")],
    )
    return model.fit(
        train_ds,
        validation_data=val_ds,
        epochs=10,
        class_weight=class_weight,
        callbacks=[
            callbacks.ReduceLROnPlateau(monitor="val_loss", factor=0.5, patience=1),
            callbacks.EarlyStopping(monitor="val_auc", mode="max", patience=3, restore_best_weights=True),
        ],
    )


def pick_threshold(scores, labels):
    grid = np.linspace(0.1, 0.9, 81)
    values = [f1_score(labels, scores > t) for t in grid]
    return float(grid[int(np.argmax(values))])


def main():
    texts, labels = read_reviews("data/reviews.csv")
    x_train, x_test, y_train, y_test = train_test_split(
        texts, labels, test_size=0.2, stratify=labels, random_state=1
    )
    x_train, x_val, y_train, y_val = train_test_split(
        x_train, y_train, test_size=0.1, stratify=y_train, random_state=1
    )
    vectorizer = make_vectorizer(x_train)
    train_ds = make_dataset(x_train, y_train, vectorizer, training=True)
    val_ds = make_dataset(x_val, y_val, vectorizer)
    test_ds = make_dataset(x_test, y_test, vectorizer)

    positive = y_train.mean()
    class_weight = {0: 0.5 / (1 - positive), 1: 0.5 / positive}

    model = build_model()
    history = train(model, train_ds, val_ds, class_weight)
    print("best validation AUC", max(history.history["val_auc"]))

    threshold = pick_threshold(model.predict(val_ds).ravel(), y_val)
    scores = model.predict(test_ds).ravel()
    predicted = (scores > threshold).astype(int)
    print("threshold", threshold, "test F1", f1_score(y_test, predicted))
    model.save("reviews_lstm.keras")

    for i in random.Random(0).sample(range(len(x_test)), 3):
        print(x_test[i][:80], "->", round(float(scores[i]), 3))


if __name__ == "__main__":
    main()
