"""Reads an output and does nothing but tell its process once: what a call costs."""

import os


def outputs(model):
    return [0]


def process(frame, tensors, results):
    if frame.sequence == 1:
        results.add(class_id=os.getpid())
