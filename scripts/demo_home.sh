# shellcheck shell=sh
# What alice has at home in the demonstration: run by her, in her home (scripts/demo, tests/cluster/demo.bats).
mkdir images
(cd images && seq 3000 | while read -r i; do echo "image $i" >"img_$i.txt"; done)
tar czf data.tar.gz -C images .
head -c 9000 data.tar.gz >cut.tar.gz
cat >job.sh <<'SCRIPT'
#!/bin/bash
#SBATCH --nodes=3 --ntasks-per-node=1 --time=5 --output=job.out
#SBATCH --stage-dataset=~/data.tar.gz
#SBATCH --stage-out=results:~/out_%j

srun bash -c 'mkdir $SLURM_TMPDIR/results
  echo "$(hostname) sees $(ls $NODESTAGE_DATASET | wc -l) files in $NODESTAGE_DATASET" |
    tee $SLURM_TMPDIR/results/report.txt'
SCRIPT
