"""Train several runs one after the other in the same processes, since starting those takes most of the time.

python -m torch.distributed.run --nproc-per-node 2 tests/helpers/train_all.py CONFIG OUT [CONFIG OUT ...]
"""

import sys

from lib.training import distributed

if __name__ == "__main__":
    with distributed.joined():
        from lib.core.files import read_mapping
        from lib.study.run import RunSettings
        from lib.training.run import train

        for config, out in zip(sys.argv[1::2], sys.argv[2::2], strict=True):
            train(RunSettings.model_validate(read_mapping(config)), out)
