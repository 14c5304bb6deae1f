// Package spin keeps processors busy with processes of this program.
package spin
