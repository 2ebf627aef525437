internal import Bytes
internal import Engine
internal import Vocabulary
internal import Wire

/// Frames before they are executed: decoding many at once, prefetching their documents, and refusing
/// those that are invalid.
extension Connection {
    /// Answers a frame that cannot be decoded; the connection has to close.
    func refuse(_ error: FrameDecoder.FrameError) {
        switch error {
        case .magic: break
        case .lengths(let header):
            answer(.invalid, to: header.replyTo, because: "Key and extras exceed the body.")
        case .tooLong(let header):
            let limit = login == .anonymous ? "4 KiB before login" : "30 MiB"
            answer(.invalid, to: header.replyTo, because: "A frame has at most \(limit).")
        }
    }

    /// Decodes up to `batchMax` complete frames, hashes their keys and prefetches their documents.
    func gather(_ input: ByteView) -> (count: Int, stop: FrameDecoder.Outcome) {
        var (count, offset) = (0, 0)
        var stop = FrameDecoder.Outcome.incomplete(needed: FrameHeader.byteCount)
        while count < LaneContext.batchMax {
            stop = decoder.next(in: input.dropFirst(offset))
            guard case .frame(let frame) = stop else { break }
            context.frames[count] = frame
            offset += frame.byteCount
            count += 1
        }
        guard count > 0 else { return (0, stop) }
        for index in 0..<count { context.hashes[index] = service.hash(context.frames[index].key) }
        if count > 1, let bucket { prefetch(count, bucket.engine) }
        return (count, stop)
    }

    private func prefetch(_ count: Int, _ engine: Bucket) {
        for index in 0..<count {
            guard let root = root(of: context.frames[index], engine) else { continue }
            HashTable.prefetchGroup(root: root, hash: context.hashes[index])
        }
        for index in 0..<count {
            guard let root = root(of: context.frames[index], engine) else { continue }
            _ = HashTable.prefetchItem(root: root, hash: context.hashes[index])
        }
    }

    @inline(__always)
    private func root(of frame: Frame, _ engine: Bucket) -> SharedWord? {
        guard frame.header.keyCount > 0 else { return nil }
        return engine[vBucketNumber(frame, engine)]?.root
    }

    @inline(__always)
    func vBucketNumber(_ frame: Frame, _ engine: Bucket) -> UInt16 {
        isMemcachedListener
            ? VBucketID(ofKey: frame.key, count: engine.count).number : frame.vBucket.number
    }

    /// The status that refuses framing extras of a command; nil if they are accepted.
    func refusal(of framing: FramingExtras, _ command: Command) -> Status? {
        if framing.durability != nil {
            guard command.isMutation else { return .invalid }
            // A prepare contains the new version of a document, so only commands that create one
            // support durability.
            guard command.isDurable else { return .notSupported }
        }
        if framing.streamID != nil { return .invalid }
        if framing.impersonated != nil { return .notSupported }
        if framing.preservesExpiry, !command.isMutation { return .invalid }
        return nil
    }
}
