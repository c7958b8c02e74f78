#!/usr/bin/env bash
# Runs the x86-64 kernel tests, or any x86-64 program, on an emulated Sapphire Rapids: AVX-512, AVX512-BF16 and AMX without
# such a machine. Results count there, seconds do not. docs/how-to/emulate-x86.md says where Bochs and a kernel come from.
#
#   EI_BOCHS=DIR EI_X86_KERNEL=FILE tools/emulate_x86.sh [gtest-filter]
#   EI_BOCHS=DIR EI_X86_KERNEL=FILE tools/emulate_x86.sh --run 'program arguments' file...
#
# EI_BOCHS: the folder Bochs was built in; EI_X86_KERNEL: a Linux kernel (bzImage) that writes to a serial console;
# EI_X86_CPU: another processor of Bochs, corei7_skylake_x for one. Files of --run go into the root of the machine, which
# has 1 GiB of memory. Exit 77 when something is missing, else the number of commands that failed.
set -euo pipefail
cd "$(dirname "$0")/.."
stage=build/emulated
bochs=${EI_BOCHS:-}/bochs
isolinux=${EI_ISOLINUX:-/usr/lib/ISOLINUX/isolinux.bin}
loader=${EI_LDLINUX:-/usr/lib/syslinux/modules/bios/ldlinux.c32}
cross=x86_64-linux-gnu
libraries=${EI_X86_LIBRARIES:-/usr/$cross/lib}

for need in "$bochs" "${EI_X86_KERNEL:-EI_X86_KERNEL}" "$isolinux" "$loader" "$libraries/ld-linux-x86-64.so.2"; do
  [ -e "$need" ] || { echo "emulate_x86: no $need (docs/how-to/emulate-x86.md)" && exit 77; }
done
for need in "$cross-g++" genisoimage cpio; do
  command -v "$need" >/dev/null || { echo "emulate_x86: no $need (docs/how-to/emulate-x86.md)" && exit 77; }
done

rm -rf "$stage" && mkdir -p "$stage/files/lib64" "$stage/files/lib" "$stage/iso/isolinux"
if [ "${1:-}" = --run ]; then
  echo "$2" >"$stage/files/commands"
  if [ $# -gt 2 ]; then cp "${@:3}" "$stage/files/"; fi
else
  tools/cross_check.sh build/cross 'AttentionChoice.*'
  cp build/cross/kernels_test "$stage/files/"
  echo "/kernels_test --gtest_color=no --gtest_filter=${1:-Attention.SeesOnly*:Attention.ReadsCompacted*:*Gemm.*}" >"$stage/files/commands"
fi
"$cross-g++" -std=c++20 -O1 -static-libstdc++ -static-libgcc tools/emulated_init.cpp -o "$stage/files/init"
for library in ld-linux-x86-64.so.2 libc.so.6 libm.so.6 libgcc_s.so.1 libstdc++.so.6; do
  cp -L "$libraries/$library" "$stage/files/lib64/"
  ln -s "/lib64/$library" "$stage/files/lib/$library"
done

(cd "$stage/files" && find . | cpio --quiet -o -H newc) >"$stage/iso/isolinux/initrd"
cp "$EI_X86_KERNEL" "$stage/iso/isolinux/kernel"
cp "$isolinux" "$loader" "$stage/iso/isolinux/"
# What the kernel does not use, Bochs cannot get wrong; with all of it Linux 6.1 faults for ever.
options="nokaslr no5lvl nopcid noinvpcid nopku nosmap nosmep ibt=off clearcpuid=fsrm,erms mitigations=off nosmp"
cat >"$stage/iso/isolinux/isolinux.cfg" <<END
DEFAULT it
LABEL it
 KERNEL kernel
 INITRD initrd
 APPEND console=ttyS0 quiet panic=-1 tsc=reliable $options
END
genisoimage -quiet -o "$stage/disc.iso" -b isolinux/isolinux.bin -c isolinux/boot.cat -no-emul-boot -boot-load-size 4 \
  -boot-info-table "$stage/iso"
bios=$(find "$EI_BOCHS/bios" -name 'bios.bin*' -o -name BIOS-bochs-latest | head -1)
vga=$(find "$EI_BOCHS/bios" -name 'vgabios-cirrus.bin*' -o -name VGABIOS-lgpl-latest.bin | head -1)
cat >"$stage/bochsrc" <<END
cpu: model=${EI_X86_CPU:-sapphire_rapids}, count=1, ips=1000000000, reset_on_triple_fault=0, ignore_bad_msrs=1
memory: guest=1024, host=1024
romimage: file=$bios
vgaromimage: file=$vga
ata0: enabled=1, ioaddr1=0x1f0, ioaddr2=0x3f0, irq=14
ata0-master: type=cdrom, path=$stage/disc.iso, status=inserted
boot: cdrom
com1: enabled=1, mode=file, dev=$stage/serial.txt
display_library: nogui
log: $stage/bochs.log
panic: action=fatal
error: action=report
info: action=ignore
debug: action=ignore
clock: sync=none
END
touch "$stage/serial.txt"
"$bochs" -q -f "$stage/bochsrc" >"$stage/bochs.out" 2>&1 &
tail --pid=$! -n +1 -f "$stage/serial.txt" | stdbuf -oL tr -ds '\r' '\n' | tee "$stage/output.txt"
grep -q '^emulated: done' "$stage/output.txt" || { echo "emulate_x86: the machine stopped early: $stage/bochs.out" && exit 1; }
exit "$(grep -c '^emulated: exit [^0]' "$stage/output.txt")"
