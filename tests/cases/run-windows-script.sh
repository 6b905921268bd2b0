# A script with the line ends of Windows cannot be run: nodestage run says why, and what corrects it.
printf '#!/bin/bash\r\necho 1\r\n' >script
chmod +x script
says -- ./script
[ "$code" = 126 ]
has "$said" './script: its lines end as Windows writes them' "sed -i 's/\\r\$//' ./script"
printf '#!/usr/bin/env bash\r\necho 1\r\n' >script
says -- ./script
has "$said" 'its lines end as Windows writes them'
sed -i 's/\r$//' ./script
[ "$(R -- ./script)" = 1 ]
