"""plot_entropies.py MODEL TEXTFILE PICTURE: how spread each head's attention to distant text is, along a prompt."""
import sys
import entropyinfer
import matplotlib; matplotlib.use("Agg")
import matplotlib.pyplot as plt

model, text, picture = sys.argv[1:]
entropies = entropyinfer.Engine(model).entropies(open(text, encoding="utf-8").read())  # [layers, kv_heads, segments]
plt.imshow(entropies.reshape(-1, entropies.shape[2]), aspect="auto", interpolation="nearest")
plt.xlabel("segment of the prompt"); plt.ylabel("layer and kv_head"); plt.colorbar(label="entropy, nats")
plt.savefig(picture)
