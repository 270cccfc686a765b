#!/usr/bin/awk -f
# usage: arpa_to_numbers.awk words.txt lm.arpa: prints the ARPA file with numbers in place of words, without n-grams that
# have other words; counts at its head are those of what is left, so the file is read twice: as a whole, then printed
FNR == NR { id[$1] = $2; next }
/^\\data\\/ { next }
/^ngram / { next }
/^\\end\\/ { next }
/^\\[0-9]*-grams:/ { order = substr($1, 2) + 0; if (order > highest) highest = order; next }
order && NF {
  line = $1 "\t"
  for (i = 2; i <= order + 1; i++) {
    if (!($i in id)) next
    line = line (i > 2 ? " " : "") id[$i]
  }
  if (NF > order + 1) line = line "\t" $NF
  lines[order, ++count[order]] = line
}
END {
  print "\\data\\"
  for (n = 1; n <= highest; n++) print "ngram " n "=" count[n] + 0
  for (n = 1; n <= highest; n++) {
    print "\n\\" n "-grams:"
    for (i = 1; i <= count[n]; i++) print lines[n, i]
  }
  print "\n\\end\\"
}
