// Package printable makes text of foreign origin safe to show. What a plugin, a result file or a
// file name says may have escape sequences that command a terminal, marks that reverse the order of
// characters, and line breaks that forge lines of a report.
//
// Text is made printable at two places:
//
//   - Where a document of a plugin or a file is decoded, [Strings] makes each of its strings one
//     line. All that is made of them later (tables, CSV, Markdown, HTML, new result files) is then
//     safe, and tables keep their columns.
//   - Where the command writes to standard output and standard error, [Writer] escapes what is
//     left, for example in a file name or a message of gRPC. It is the only way to both, but for
//     the control sequences of the progress line.
//
// Characters are replaced by visible escapes and never removed. All others, of any script, stay.
package printable
