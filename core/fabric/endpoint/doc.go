// Package endpoint holds the control path that all transports share: the
// registry behind Transport.NewWorker and Close ([Workers]), the table of
// connections behind Worker.Connect ([Peers]), the errors that workers return
// ([Name], [PeerErrors]), the queue of lost peers ([LostPeers]) and what goes on with
// closed workers of a library ([Reaper]).
//
// Post, Flush and Poll stay in each transport: they index [Peers.ByID] and return
// errors that were made when the peer connected, and call nothing else here but
// [LostPeers.Report].
package endpoint
