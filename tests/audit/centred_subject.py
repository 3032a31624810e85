import torch
from torch.nn.functional import cross_entropy


def make_subject():
    head = torch.zeros(2, 256, requires_grad=True)

    def gradients(texts):
        counts = [torch.bincount(torch.tensor(list(t.encode())), minlength=256) for t in texts]
        x = torch.stack(counts).float()
        x = x - x.mean(dim=0)  # the bug: centred over the batch
        losses = cross_entropy(x @ head.T, torch.ones(len(texts)).long(), reduction="none")
        rows = [torch.autograd.grad(loss, head, retain_graph=True)[0] for loss in losses]
        return torch.stack(rows).flatten(1)

    return gradients
