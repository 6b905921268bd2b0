# Links that lead out of a directory are told, and links=follow stages what they point to.
mkdir -p m/blobs m/snapshots/a && echo data >m/blobs/2 && ln -s ../../blobs/2 m/snapshots/a/config.json
has "$(says --stage-dataset=m/snapshots/a -- true)" \
    "no byte of data is in it: 1 link leads out of it, such as config.json -> ../../blobs/2 (links=follow takes what they point to)"
R --stage-dataset=m/snapshots/a,links=follow --stage-out=a/config.json:o/c -- true
holds o/c data
nodestage pack --dereference m/snapshots/a -o a.tar >said
has "$(cat said)" "1 link that leads out of it is followed"
R --stage-dataset=a.tar --stage-out=a/config.json:o/d -- true
holds o/d data
