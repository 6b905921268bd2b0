# Numbers in a 7z of 150 bytes made the worker take 5 GB: they are compared with the bytes that there are, before anything.
python3 - <<'PYTHON'
import lzma, struct, zlib

def number(value):
    return b'\xff' + value.to_bytes(8, 'little') if value > 127 else bytes([value])

def write(name, header, packed=b'x' * 64):
    start = struct.pack('<QQI', len(packed), len(header), zlib.crc32(header))
    with open(name, 'wb') as file:
        file.write(b'7z\xbc\xaf\x27\x1c\0\4' + struct.pack('<I', zlib.crc32(start)) + start + packed + header)

files = b'\1\5' + number(99_000_000) + b'\0' * 200
write('files.7z', files)
write('folders.7z', b'\1\4\6\0\1\x09\x0a\0\7\x0b' + number(90_000_000) + b'\0' + b'\1\0' * 20 + b'\0')
write('coders.7z', b'\1\4\6\0\1\x09\x0a\0\7\x0b\1\0' + number(80_000_000) + b'\0' * 20)
packed = lzma.compress(files, lzma.FORMAT_RAW, filters=[{'id': lzma.FILTER_LZMA1, 'dict_size': 1 << 16}])
write('coded.7z', b'\x17\6\0\1\x09' + number(len(packed)) + b'\0\7\x0b\1\0\1\x23\3\1\1\5\x5d' + struct.pack('<I', 1 << 16) +
      b'\x0c' + number(len(files)) + b'\x0a\1' + struct.pack('<I', zlib.crc32(files)) + b'\0\0', packed)
PYTHON
for name in files folders coders coded; do
    says --stage-dataset=$name.7z -- true
    [ "$code" != 0 ]
    has "$said" "$name.7z: damaged or cut off: its header counts more than it can hold"
done
