# scripts/novels on a small database of R: simple sentences stay, long ones and those with rare words go. scripts/copied on
# what is left.
#   cmake -DSCRIPTS=… -DFOLDER=… -P novels_test.cmake
file(REMOVE_RECURSE ${FOLDER})
file(MAKE_DIRECTORY ${FOLDER})
# Words of the first novel are the most frequent 2,500; the second one has others.
file(WRITE ${FOLDER}/make.pl [=[
use strict; use warnings; use Compress::Zlib;
sub object {
  my $strings = join '', map { pack('NN', 0x00040009, length) . $_ } @_;
  return "X\n" . pack('NNNN', 3, 0x00040202, 0x00030500, 5) . 'UTF-8' . pack('NN', 0x00000010, scalar @_) . $strings;
}
sub word { my $word = ''; for (my $n = $_[0] + 1; $n; $n = int($n / 26)) { $word .= chr(97 + $n % 26) } return "z$word" }
my @common = map { word($_), word($_) } 0 .. 2489;
my @lines = map { join(' ', map { ucfirst } splice(@common, 0, 30)) . '.' } 1 .. 166;
my @plain = ('CHAPTER I', '', '"She was glad," said Mr Hope, "and', 'so was he; but he was gone." They had a zebra.', '',
  'She was glad, and so was he. ' . ucfirst(join(' ', ('he') x 25)) . '.', '', 'He was gone.', '', 'He was gone.');
my @rest = map { my $line = $_; ($line) x 4 } 'She was glad said Mr Hope and so was he but he was gone.';
for my $object (object(map { ($_, '') } @lines), object(@plain), object(map { ($_, '') } @rest)) {
  my $stream = compress($object);
  print pack('N', length $object), $stream;
}
]=])
execute_process(COMMAND perl ${FOLDER}/make.pl OUTPUT_FILE ${FOLDER}/Rdata.rdb RESULT_VARIABLE made)
execute_process(COMMAND ${SCRIPTS}/novels ${FOLDER}/Rdata.rdb OUTPUT_VARIABLE out ERROR_VARIABLE err RESULT_VARIABLE code)
set(expected "She was glad, said Mr. Hope, and so was he. But he was gone.\nShe was glad, and so was he.\nHe was gone.\nShe was glad said Mr. Hope and so was he but he was gone.\n")
if(NOT made EQUAL 0 OR NOT code EQUAL 0 OR NOT out STREQUAL expected)
  message(FATAL_ERROR "exit ${code}, and not the simple sentences:\n${out}${err}")
endif()

file(WRITE ${FOLDER}/corpus.txt "${out}")
# Of five sequences of eight words three are there; case and marks do not count, and none reaches over the end of a line.
file(WRITE ${FOLDER}/said.txt "She was glad, and so was he - glad.\nSHE WAS GLAD said mr hope and so was he too.\nbut he was gone\n")
execute_process(COMMAND ${SCRIPTS}/copied ${FOLDER}/corpus.txt INPUT_FILE ${FOLDER}/said.txt OUTPUT_VARIABLE out RESULT_VARIABLE code)
if(NOT code EQUAL 0 OR NOT out STREQUAL "60.0\n")
  message(FATAL_ERROR "exit ${code}, and a share of ${out}")
endif()

foreach(file IN ITEMS /dev/null ${FOLDER}/said.txt ${FOLDER}/none.deb)
  execute_process(COMMAND ${SCRIPTS}/novels ${file} OUTPUT_VARIABLE out ERROR_VARIABLE err RESULT_VARIABLE code)
  if(code EQUAL 0 OR NOT err MATCHES "novels: '${file}'")
    message(FATAL_ERROR "${file}: exit ${code}, ${err}")
  endif()
endforeach()
