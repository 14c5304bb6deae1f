// Command transport-tcpx is the plugin of the tcpx transport.
package main
