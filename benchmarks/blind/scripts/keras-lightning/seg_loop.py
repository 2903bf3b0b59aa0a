"""Lung segmentation with a small U-Net and a hand-written training loop."""
import argparse
import pathlib

import tensorflow as tf
from tensorflow.keras import layers

SIZE = 256


def load_pair(image_path, mask_path):
    image = tf.io.decode_png(tf.io.read_file(image_path), channels=1)
    image = tf.image.resize(image, (SIZE, SIZE)) / 255.0
    mask = tf.io.decode_png(tf.io.read_file(mask_path), channels=1)
    mask = tf.image.resize(mask, (SIZE, SIZE), method="nearest")
    return image, tf.cast(mask > 0, tf.float32)


def flip_pair(image, mask):
    both = tf.concat([image, mask], axis=-1)
    both = tf.image.random_flip_left_right(both)
    image, mask = both[..., :1], both[..., 1:]
    image = tf.image.random_brightness(image, 0.1)
    return image, mask


def make_dataset(folder, batch_size, training):
    images = sorted(str(p) for p in (folder / "images").glob("*.png"))
    masks = sorted(str(p) for p in (folder / "masks").glob("*.png"))
    ds = tf.data.Dataset.from_tensor_slices((images, masks))
    if training:
        ds = ds.shuffle(len(images), reshuffle_each_iteration=True)
    ds = ds.map(load_pair, num_parallel_calls=tf.data.AUTOTUNE)
    if training:
        ds = ds.map(flip_pair, num_parallel_calls=tf.data.AUTOTUNE)
    return ds.batch(batch_size).prefetch(tf.data.AUTOTUNE)


def conv_block(x, filters):
    for _ in range(2):
        x = layers.Conv2D(filters, 3, padding="same", use_bias=False, kernel_regularizer=tf.keras.regularizers.L2(1e-5))(x)
        x = layers.BatchNormalization()(x)
        x = layers.ReLU()(x)
    return x


def build_unet(widths=(32, 64, 128)):
    inputs = layers.Input((SIZE, SIZE, 1))
    x, skips = inputs, []
    for width in widths:
        x = conv_block(x, width)
        skips.append(x)
        x = layers.MaxPooling2D()(x)
    x = conv_block(x, widths[-1] * 2)
    for width, skip in zip(reversed(widths), reversed(skips)):
        x = layers.Conv2DTranspose(width, 2, strides=2, padding="same")(x)
        x = layers.Concatenate()([x, skip])
        x = conv_block(x, width)
    return tf.keras.Model(inputs, layers.Conv2D(1, 1)(x))


bce = tf.keras.losses.BinaryCrossentropy(from_logits=True)


def dice_loss(mask, logits):
    prob = tf.sigmoid(logits)
    overlap = tf.reduce_sum(mask * prob, axis=[1, 2, 3])
    total = tf.reduce_sum(mask, axis=[1, 2, 3]) + tf.reduce_sum(prob, axis=[1, 2, 3])
    return tf.reduce_mean(1.0 - (2.0 * overlap + 1.0) / (total + 1.0))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--data", type=pathlib.Path, required=True)
    ap.add_argument("--epochs", type=int, default=40)
    ap.add_argument("--batch", type=int, default=8)
    ap.add_argument("--lr", type=float, default=1e-3)
    args = ap.parse_args()

    tf.keras.utils.set_random_seed(0)
    train_ds = make_dataset(args.data / "train", args.batch, training=True)
    val_ds = make_dataset(args.data / "val", args.batch, training=False)
    model = build_unet()
    steps = int(train_ds.cardinality()) * args.epochs
    schedule = tf.keras.optimizers.schedules.CosineDecay(args.lr, steps)
    optimizer = tf.keras.optimizers.Adam(schedule)
    train_loss = tf.keras.metrics.Mean()
    val_iou = tf.keras.metrics.BinaryIoU(target_class_ids=[1], threshold=0.5)

    @tf.function
    def train_step(image, mask):
        with tf.GradientTape() as tape:
            logits = model(image, training=True)
            loss = bce(mask, logits) + dice_loss(mask, logits)
            loss += tf.add_n(model.losses)
        grads = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(grads, model.trainable_variables))
        train_loss.update_state(loss)

    @tf.function
    def val_step(image, mask):
        logits = model(image, training=False)
        val_iou.update_state(mask, tf.sigmoid(logits))

    best = 0.0
    for epoch in range(args.epochs):
        train_loss.reset_state()
        val_iou.reset_state()
        for image, mask in train_ds:
            train_step(image, mask)
        for image, mask in val_ds:
            val_step(image, mask)
        iou = float(val_iou.result())
        print(f"epoch {epoch + 1} loss {float(train_loss.result()):.4f} val IoU {iou:.4f}")
        if iou > best:
            best = iou
            model.save_weights("unet.weights.h5")
    print("best IoU", best)


if __name__ == "__main__":
    main()
