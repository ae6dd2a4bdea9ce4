# scripts/prose on a page, a manual, a source and compressed files: prose stays, once, and code goes.
#   cmake -DPROSE=… -DFOLDER=… -P prose_test.cmake
file(REMOVE_RECURSE ${FOLDER})
file(MAKE_DIRECTORY ${FOLDER})
set(first "The quick brown fox jumps over the lazy dog, and the dog, which is old and has seen many foxes, does not even lift its head to look.")
set(second "A tensor is cut into equal parts, so that each rank holds one of them and is able to work on it without asking the others for theirs.")
file(WRITE ${FOLDER}/1.html "<html><head><title>no</title></head><body><p>The quick <b>brown</b> fox jumps over the lazy dog,
and the dog, which is old and has seen many foxes, does not even lift its&nbsp;head to look.</p>
<pre>for (int i = 0; i < 3; ++i) { the(a); is(to); }</pre><p>Short.</p></body></html>")
file(WRITE ${FOLDER}/2.1 ".SH NAME\n\n\\fBThe quick\\fR brown fox jumps over the lazy dog, and the dog, which is old and has seen
many foxes, does not even lift its head to look.\n\n.PP\n${second}\n\nx = 1; y = 2; the a is to the a is to the a is to the a is to the a is to the a is to the a is to the a is to the a is to the a\n")
file(WRITE ${FOLDER}/3.txt "Der Hund ist alt und hat schon viele Füchse gesehen, so dass er nicht einmal den Kopf hebt, um nach diesem einen zu sehen.\n")
# Two members in one file, and one that ends in the middle.
set(third "A pipeline has stages, each of which holds some of the layers, and a micro batch goes through all of them before the next is done.")
set(fourth "Each replica has the same weights and reads other samples, and the gradients of all of them are added before the weights change.")
file(WRITE ${FOLDER}.third "${third}\n\n")
file(WRITE ${FOLDER}.fourth "${fourth}\n")
execute_process(COMMAND gzip -cn ${FOLDER}.third ${FOLDER}.fourth OUTPUT_FILE ${FOLDER}/4.txt.gz)
execute_process(COMMAND gzip -cn ${FOLDER}.fourth COMMAND head -c 40 OUTPUT_FILE ${FOLDER}/5.txt.gz)
execute_process(COMMAND find ${FOLDER} -type f -print0 COMMAND sort -z COMMAND ${PROSE} 100000
  OUTPUT_VARIABLE out RESULT_VARIABLE code)
if(NOT code EQUAL 0 OR NOT out STREQUAL "${first}\n${second}\n${third}\n${fourth}\n")
  message(FATAL_ERROR "exit ${code}, and not the four paragraphs:\n${out}")
endif()
