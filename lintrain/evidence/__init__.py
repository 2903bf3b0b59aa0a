"""What a probe measured, one file for each stage of training: plain data without tensors."""
