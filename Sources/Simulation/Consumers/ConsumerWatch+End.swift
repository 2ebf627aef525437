internal import DataService
internal import Engine
internal import Seams
internal import Server
internal import Vocabulary

/// The checks after the last write.
extension ConsumerWatch {
    /// Waits until each consumer has what the active copies have.
    ///
    /// Only while nothing else is wrong: copies that do not converge have no final content.
    func conclude() {
        checkValues()
        guard verifier.violations.isEmpty else { return }
        _ = cluster.waitUntil(seconds: 40) { isEverythingThere }
        for consumer in consumers {
            var flaws = 0
            for place in consumer.places {
                guard let flaw = finalFlaw(of: place, consumer) else {
                    countFinal()
                    continue
                }
                flaws += 1
                if flaws <= 2 { consumer.reportFlaw("at the end, \(place.id): \(flaw)") }
            }
        }
    }

    private var isEverythingThere: Bool {
        consumers.allSatisfy { consumer in
            consumer.places.allSatisfy { finalFlaw(of: $0, consumer) == nil }
        }
    }

    /// The flaw of a vBucket; nil if there is none, or if no node serves it, which the check Live reports.
    private func finalFlaw(of place: ConsumerPlace, _ consumer: SimulatedConsumer) -> String? {
        guard let node = cluster.owner(of: place.number, consumer.bucket),
            let bucket = node.node?.data.bucket(named: consumer.bucket),
            let high = bucket.highVisible(place.id)
        else { return nil }
        guard place.isStreaming, let link = place.link else {
            return "it has no stream, at \(place.view.position.value) of \(high.value)"
        }
        guard link.address.host == node.address else {
            return "its stream is of \(link.address.host), and \(node.address) serves it"
        }
        guard place.view.position == high else {
            return "it stays at \(place.view.position.value), and the last visible change is "
                + "\(high.value)"
        }
        guard let copy = node.copy(place.id, of: consumer.bucket) else { return nil }
        let purged = bucket.engine.all[place.number].withCore { $0.purgeSeqno }
        let comparison = ConsumerComparison(
            versions: copy.documents,
            purged: purged,
            isComplete: true
        )
        return comparison.finalFlaw(in: place.view)
    }

    /// Every value that a consumer received was sent by a client, and not refused.
    private func checkValues() {
        for bucket in buckets {
            let sent = verifier.sentValues(of: bucket.name)
            for consumer in consumers where consumer.bucket == bucket.name {
                for place in consumer.places {
                    checkValues(place.view.received, sent, consumer: consumer)
                }
            }
        }
    }

    private func checkValues(
        _ received: [[UInt8]: Set<[UInt8]>],
        _ sent: [String: Set<[UInt8]>],
        consumer: SimulatedConsumer
    ) {
        for (key, values) in received {
            let name = String(decoding: key, as: UTF8.self)
            guard let known = sent[name] else { continue }
            for value in values.subtracting(known) {
                consumer.reportFlaw(
                    "\(name) was sent as \(RegisterOperation.text(value)), which no client wrote, "
                        + "or which was refused"
                )
            }
        }
    }
}
