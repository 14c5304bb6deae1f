// Command transport-shm is the plugin of the shared-memory transport.
package main
