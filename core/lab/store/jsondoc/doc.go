// Package jsondoc decodes JSON documents that anyone may have written. It refuses what
// encoding/json lets pass, reports the line and column of what is wrong, and bounds the memory that
// a document takes.
package jsondoc
