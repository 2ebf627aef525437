internal import Bytes
internal import Synchronization

/// Statistics of the clients' connections that stream changes.
extension DocumentService {
    /// The group `dcp`: lines for each connection, then totals.
    func changeStats(of bucket: OpenBucket) -> [(String, String)] {
        let clients = bucket.traffic.clients.all
        var lines: [(String, String)] = []
        for client in clients {
            let prefix = "eq_dcpq:\(client.name)"
            lines += [
                ("\(prefix):type", "producer"),
                ("\(prefix):connected", "true"),
                ("\(prefix):num_streams", String(client.streams.load(ordering: .relaxed))),
                ("\(prefix):items_sent", String(client.items.load(ordering: .relaxed))),
                ("\(prefix):total_bytes_sent", String(client.bytes.load(ordering: .relaxed))),
                (
                    "\(prefix):unacked_bytes",
                    String(client.unacknowledged.load(ordering: .relaxed))
                ),
            ]
        }
        lines += [
            ("ep_dcp_count", String(clients.count)),
            ("ep_dcp_producer_count", String(clients.count)),
        ]
        return lines
    }

    /// The group `dcpagg`: totals by the part of a connection's name before `separator`.
    func changeTotals(of bucket: OpenBucket, separator: Substring) -> [(String, String)] {
        struct Total {
            var count = 0
            var items: UInt64 = 0
            var bytes: UInt64 = 0
        }
        var totals: [String: Total] = [":total": Total()]
        for client in bucket.traffic.clients.all {
            let end = client.name.firstRange(of: separator)?.lowerBound ?? client.name.endIndex
            let group = end == client.name.endIndex ? nil : String(client.name[..<end])
            for key in [group, ":total"].compactMap({ $0 }) {
                totals[key, default: Total()].count += 1
                totals[key, default: Total()].items += client.items.load(ordering: .relaxed)
                totals[key, default: Total()].bytes += client.bytes.load(ordering: .relaxed)
            }
        }
        return totals.sorted { $0.key < $1.key }.flatMap { name, total in
            [
                ("\(name):count", String(total.count)),
                ("\(name):producer_count", String(total.count)),
                ("\(name):items_sent", String(total.items)),
                ("\(name):total_bytes", String(total.bytes)),
            ]
        }
    }
}
