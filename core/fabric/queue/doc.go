// Package queue implements a bounded queue for one thread.
package queue
