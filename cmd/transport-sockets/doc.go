// Command transport-sockets is the plugin of the sockets transport.
package main
