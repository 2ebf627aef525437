internal import Bytes
internal import Engine
internal import Replication
internal import Seams
internal import Vocabulary
internal import Wire

/// The channels and streams that the link wants: one channel for each bucket, one stream for each vBucket.
extension ReplicationConsumer {
    /// The delay after the first answer that the other node does not have a bucket; it doubles with each
    /// further one.
    private static let channelNanoseconds: UInt64 = 10_000_000

    /// Opens streams that are wanted and missing, closes streams that are no longer wanted.
    func reconcile() {
        let wanted = link.wanted
        for (uuid, number) in numbers where wanted[uuid] == nil { closeChannel(number, uuid) }
        for (uuid, feed) in wanted {
            guard let number = numbers[uuid] else {
                lastNumber &+= 1
                numbers[uuid] = lastNumber
                channels[lastNumber] = Channel(feed: feed)
                NodeStreamEncoder.openChannel(lastNumber, bucket: uuid, to: outbox)
                continue
            }
            switch channels[number]?.state {
            case .open: reconcile(feed, number)
            case .refused:
                channels[number]?.state = .opening
                NodeStreamEncoder.openChannel(number, bucket: uuid, to: outbox)
            case .opening, nil: break
            }
        }
    }

    private func closeChannel(_ number: UInt16, _ uuid: String) {
        for address in streams.keys where address.channel == number { closeStream(address) }
        numbers[uuid] = nil
        shortSince[number] = nil
    }

    private func closeStream(_ address: NodeStreamAddress) {
        guard let stream = streams.removeValue(forKey: address) else { return }
        if stream.phase == .asked || stream.phase == .streaming {
            NodeStreamEncoder.closeStream(at: address, to: outbox)
        }
        stream.end()
    }

    func reconcile(_ feed: ReplicationTopology.Feed, _ number: UInt16) {
        for (address, stream) in streams where address.channel == number {
            if feed.vBuckets[address.vBucket] != stream.fence || stream.bucket.isRetired {
                closeStream(address)
            }
        }
        guard let bucket = service.bucket(uuid: feed.uuid) else { return }
        for (id, fence) in feed.vBuckets {
            let address = NodeStreamAddress(channel: number, vBucket: id)
            guard streams[address] == nil, let vBucket = bucket.engine[id.number] else { continue }
            let stream = IncomingStream(address, fence: fence, bucket: bucket, vBucket: vBucket)
            stream.listener = bucket.traffic.listen(to: id) { [events] news in
                switch news {
                case .persisted: events.put(.persisted(address))
                case .ownership: events.put(.ask(address))
                case .changed, .acknowledged, .retired: break
                }
            }
            streams[address] = stream
            requestStream(stream)
        }
    }

    /// The other node has answered whether it has the bucket of a channel.
    func handleOpened(_ number: UInt16, _ status: Status?) {
        guard let feed = channels[number]?.feed else { return }
        guard status == .success else {
            // The map can name a new bucket before the other node has it. Changes made meanwhile
            // have one copy only, so the retry comes soon.
            let refusals = channels[number]?.refusals ?? 0
            channels[number]?.state = .refused
            channels[number]?.refusals = refusals + 1
            let pause = ReplicationConsumer.channelNanoseconds << UInt64(min(refusals, 6))
            service.lanes.nonIO.lane.post(after: pause) { [events] in events.put(.wanted) }
            return
        }
        channels[number]?.state = .open
        channels[number]?.refusals = 0
        if let wanted = link.wanted[feed.uuid] { reconcile(wanted, number) }
    }
}
