internal import Bytes

/// Requests rendered ahead of time, sent in this order repeatedly.
///
/// While measuring, sending is one copy of a prepared range of bytes: no random draw, no lookup, no
/// encoding. Every connection begins at another place of the ring. The opaque of a request is its
/// place, so matching an answer compares two numbers.
final class RequestRing: @unchecked Sendable {  // tidy:allow nothing changes after it is made
    /// Bytes: reading a larger ring would take longer than the server takes to answer.
    private static let bytesMax = 256 << 20
    private static let countMax = 1 << 21

    let count: Int
    private let writer: ByteWriter
    /// Where each request begins, and one more for the end.
    private let offsets: UnsafeMutablePointer<Int>
    private let writes: UnsafeMutablePointer<Bool>

    /// Draws and renders the requests whose vBuckets are on `node`.
    init(
        _ workload: Workload,
        _ documents: Documents,
        _ dialect: Dialect,
        map: ServerMap,
        node: Int,
        seed: UInt64
    ) {
        let writeShare = workload.writePercent / 100
        let bytesEach = Double(workload.keyBytes + 50) + writeShare * Double(workload.valueBytes)
        // Four draws a key leave 2 % of the keys untouched; fewer would shrink the working set.
        let wanted = max(1 << 16, min(4 * workload.keys, RequestRing.countMax))
        count = min(wanted, max(4_096, Int(Double(RequestRing.bytesMax) / bytesEach)))
        writer = ByteWriter(capacity: Int(bytesEach * Double(count) * 1.1))
        offsets = .allocate(capacity: count + 1)
        writes = .allocate(capacity: count)
        var chooser = KeyChooser(workload, seed: seed)
        let scratch = ByteWriter()
        var place = 0
        while place < count {
            let key = chooser.next()
            let isWrite = chooser.writes(percent: workload.writePercent)
            let value = isWrite ? chooser.value() : 0
            scratch.removeAll()
            documents.appendKey(key, to: scratch)
            let vBucket = map.vBucket(of: scratch.view)
            guard map.node(of: vBucket) == node else { continue }
            offsets[place] = writer.count
            writes[place] = isWrite
            let opaque = UInt32(place)
            if isWrite {
                dialect.appendSet(
                    key,
                    value: value,
                    documents,
                    vBucket: vBucket,
                    opaque: opaque,
                    to: writer
                )
            } else {
                dialect.appendGet(key, documents, vBucket: vBucket, opaque: opaque, to: writer)
            }
            place += 1
        }
        offsets[count] = writer.count
    }

    deinit {
        offsets.deallocate()
        writes.deallocate()
    }

    @inline(__always)
    func isWrite(_ place: Int) -> Bool { writes[place] }

    /// The request at `place`.
    func request(_ place: Int) -> ByteView {
        writer.view.slice(offsets[place], offsets[place + 1] - offsets[place])
    }

    /// Appends `length` requests from `place` on and returns the place behind them.
    func append(_ length: Int, from place: Int, to output: ByteWriter) -> Int {
        var (place, left) = (place, length)
        while left > 0 {
            let stretch = min(left, count - place)
            let start = offsets[place]
            output.append(writer.view.slice(start, offsets[place + stretch] - start))
            left -= stretch
            place += stretch
            if place == count { place = 0 }
        }
        return place
    }
}
