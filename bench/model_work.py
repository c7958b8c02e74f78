"""How much work one token of a GGUF model is: multiply-adds and bytes, for shares of a machine's peak.

Reads the metadata and tensor table of files that the engine has already accepted; it is no validator.
"""

import struct

# Sizes of the fixed-size metadata types of GGUF by type number; 8 is a string, 9 an array.
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
GEMMA3_PATTERN = 6  # every sixth layer of gemma3 sees the whole context


class Reader:
    def __init__(self, file):
        self.file = file

    def scalar(self, code):
        return struct.unpack("<" + code, self.file.read(struct.calcsize("<" + code)))[0]

    def text(self):
        return self.file.read(self.scalar("Q")).decode(errors="replace")

    def value(self, kind):
        if kind == 8:
            return self.text()
        if kind != 9:
            return self.scalar(SCALARS[kind])
        inner, count = self.scalar("I"), self.scalar("Q")
        if inner in SCALARS:
            self.file.seek(count * struct.calcsize("<" + SCALARS[inner]), 1)
        else:
            for _ in range(count):
                self.value(inner)
        return None  # arrays are of no use here


class ModelWork:
    def __init__(self, path):
        with open(path, "rb") as file:
            reader = Reader(file)
            if file.read(4) != b"GGUF":
                raise ValueError(f"{path} is not a GGUF file")
            reader.scalar("I")
            num_tensors, num_keys = reader.scalar("Q"), reader.scalar("Q")
            keys = {}
            for _ in range(num_keys):
                name = reader.text()
                keys[name] = reader.value(reader.scalar("I"))
            self.matrix_weights = 0  # weights every token is multiplied with; embedding and output not counted
            for _ in range(num_tensors):
                name = reader.text()
                extents = [reader.scalar("Q") for _ in range(reader.scalar("I"))]
                reader.scalar("I"), reader.scalar("Q")
                if len(extents) == 2 and name.startswith("blk."):
                    self.matrix_weights += extents[0] * extents[1]
            self.file_bytes = file.seek(0, 2)
        family = keys["general.architecture"]
        self.layers = keys[f"{family}.block_count"]
        self.heads = keys[f"{family}.attention.head_count"]
        self.kv_heads = keys.get(f"{family}.attention.head_count_kv", self.heads)
        self.head_dim = keys.get(f"{family}.attention.key_length") or keys[f"{family}.embedding_length"] // self.heads
        window = keys.get(f"{family}.attention.sliding_window") or 0
        # Tokens a layer looks back at most, per layer; 0: all of them.
        self.windows = [window if window and (layer + 1) % GEMMA3_PATTERN else 0 for layer in range(self.layers)]

    def attended(self, depth):
        """Keys that one token at this depth sees, summed over the layers."""
        return sum(min(depth + 1, window or depth + 1) for window in self.windows)

    def prompt_flops(self, tokens):
        """Floating-point operations of a prompt: matrices, and causal attention (scores and values)."""
        pairs = 0
        for window in self.windows:
            near = min(tokens, window or tokens)
            pairs += near * (near + 1) // 2 + (tokens - near) * near
        return 2 * self.matrix_weights * tokens + 4 * self.heads * self.head_dim * pairs

    def token_bytes(self, depth):
        """Bytes read to generate one token: the file's weights once, and 16-bit keys and values."""
        return self.file_bytes + self.attended(depth) * 2 * self.kv_heads * self.head_dim * 2
