internal import Bytes
internal import Seams
internal import Wire

/// Loading: each connection stores its share of the documents before the test begins.
///
/// A server with more documents than memory may answer "try again"; then the connection waits a
/// moment, as clients do. Any other error ends the test.
extension DriverConnection {
    private static let underWayMax = 64
    private static let retryNanoseconds: UInt64 = 10_000_000

    func resumeLoading(_ output: ByteWriter) {
        isWaitingToRetry = false
        let again = refused
        refused = []
        for key in again { appendLoad(key, output) }
        loadMore(output)
    }

    func receiveLoaded(_ input: ByteView, _ output: ByteWriter) -> ReceiveProgress {
        let dialect = driver.dialect
        var offset = 0
        while true {
            switch dialect.scan(input.dropFirst(offset)) {
            case .incomplete(let needed):
                loadMore(output)
                return ReceiveProgress(consumed: offset, next: .receive, needed: needed)
            case .invalid: return giveUp("the server's answer makes no sense")
            case .reply(let reply):
                loadsUnderWay -= 1
                offset += reply.byteCount
                let mayRetry =
                    reply.status == Status.temporaryFailure.rawValue
                    || reply.status == Status.outOfMemory.rawValue
                if reply.status == 0 {
                    driver.loadedDocuments += 1
                } else if mayRetry, let opaque = reply.opaque {
                    refused.append(Int(opaque))
                } else {
                    return giveUp("the server refused to store a document: \(reply.status)")
                }
            }
        }
    }

    private func loadMore(_ output: ByteWriter) {
        guard !hasLoaded, !isWaitingToRetry else { return }
        if !refused.isEmpty {
            isWaitingToRetry = true
            driver.lane.post(after: DriverConnection.retryNanoseconds) { [port] in port.wake() }
            return
        }
        while loadsUnderWay < DriverConnection.underWayMax, nextKey < driver.workload.keys {
            appendLoad(nextKey, output)
            nextKey += place.of
        }
        if loadsUnderWay == 0 && nextKey >= driver.workload.keys {
            hasLoaded = true
            driver.loadedCount += 1
        }
    }

    private func appendLoad(_ key: Int, _ output: ByteWriter) {
        let scratch = driver.scratch
        scratch.removeAll()
        driver.documents.appendKey(key, to: scratch)
        let vBucket = driver.map.vBucket(of: scratch.view)
        guard driver.map.node(of: vBucket) == place.node else { return }
        driver.dialect.appendSet(
            key,
            value: key &* 7_919 & 0x3fff_ffff,
            driver.documents,
            vBucket: vBucket,
            opaque: UInt32(key),
            to: output
        )
        loadsUnderWay += 1
    }
}
