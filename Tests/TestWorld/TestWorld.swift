package import Bytes
package import DataService
package import Engine
internal import Foundation
internal import LinuxPlatform
package import Seams
@_exported public import TestSupport
package import Vocabulary

/// A data service in a world of its own: real files in a temporary directory, no sockets, and,
/// unless threads are asked for, lanes and time that move when the test says so.
///
/// Everything runs on the test's thread then, so whatever a test or a fuzzer finds happens again.
package final class TestWorld {
    package let time = ManualTime()
    package let lanes: ManualLanes
    package let trace = RecordingTrace()
    package let quiescence: Quiescence
    package let service: DocumentService
    package let directory: String
    private let isOwner: Bool
    private let arena = Arena(pool: ChunkPool())
    private let scratch = ByteWriter()

    /// - Parameters:
    ///   - directory: Where a world before this one left its files; nil for a directory that is
    ///     gone when the world is.
    ///   - plainBucket: The bucket of plain memcached connections.
    ///   - disk: Another disk than the real one.
    ///   - threads: How many reactors there are; their lanes are threads. 0: one reactor and
    ///     manual lanes.
    package init(
        directory: String? = nil,
        plainBucket: String? = nil,
        disk: any Disk = LinuxDisk(),
        threads: Int = 0
    ) {
        isOwner = directory == nil
        self.directory = directory ?? TestWorld.freshDirectory()
        let reactors = max(1, threads)
        lanes = ManualLanes(time: time)
        quiescence = Quiescence(reactorCount: reactors)
        let environment = Environment.doubles(
            time: threads > 0 ? LinuxClock() : time,
            network: NoNetwork(quiescence: quiescence),
            disk: disk,
            lanes: threads > 0 ? LinuxLanes(reactorCount: threads) : lanes,
            trace: trace
        )
        service = DocumentService(
            environment: environment,
            version: "7.6.2",
            dataDirectory: self.directory,
            plainBucketName: plainBucket
        )
    }

    deinit {
        if isOwner { TestWorld.remove(directory) }
    }

    package static func freshDirectory() -> String {
        FileManager.default.temporaryDirectory.appending(path: "divan-\(UUID().uuidString)").path
    }

    package static func remove(_ directory: String) {
        // What a test left open may still be written to; the system clears its own directory.
        try? FileManager.default.removeItem(atPath: directory)
    }

    // MARK: Moving on

    /// Runs whatever is due on lanes that are not held.
    package func settle() {
        var left = 1_000_000
        while lanes.runOne() {
            left -= 1
            require(left > 0, "work makes more work for ever")
        }
    }

    /// Lets time pass, stopping where work is due.
    package func pass(milliseconds: UInt64) {
        let end = time.monotonicNanoseconds() + milliseconds * 1_000_000
        settle()
        while let next = lanes.nextDeadline, next <= end {
            time.advance(to: next)
            settle()
        }
        time.advance(to: end)
    }

    /// Time passes at once: work that was due meanwhile is late.
    package func jump(milliseconds: UInt64) {
        time.advance(to: time.monotonicNanoseconds() + milliseconds * 1_000_000)
    }

    // MARK: Buckets

    package static func settings(
        _ name: String,
        _ type: BucketType = .ephemeral,
        quota: UInt64 = 1 << 30,
        vBuckets: Int = 64
    ) -> BucketSettings {
        var settings = BucketSettings(
            name: name,
            uuid: "0123456789abcdef0123456789abcdef",
            quota: quota
        )
        settings.type = type
        settings.vBuckets = vBuckets
        settings.evictionPolicy = type == .persistent ? .valueOnly : .noEviction
        settings.passwordless = .loopback
        settings.flushEnabled = true
        return settings
    }

    /// What the account of a bucket should say, counted item by item; call it at rest.
    package static func recount(_ bucket: Bucket) -> UInt64 {
        bucket.all.reduce(0) { sum, vBucket in
            sum
                + vBucket.withCore { core in
                    var bytes = core.table.bytes + core.checkpoint.bytes
                    let rest = core.table.visit(from: 0, groupsMax: .max / 2) { item in
                        bytes += SizeClass.footprint(of: item.blockBytes)
                    }
                    require(rest == nil, "one visit was to see everything")
                    return UInt64(bytes)
                }
        }
    }

    /// Persists everything and closes the files, as a node does that is asked to stop.
    ///
    /// - Returns: Whether it came to an end.
    package func stop() -> Bool {
        let isDone = Guarded(false)
        service.stop { isDone.withLock { $0 = true } }
        settle()
        return isDone.withLock { $0 }
    }
}

extension TestWorld {
    /// For tests that call a vBucket directly.
    package var turn: ExecutionContext {
        ExecutionContext(wallNanoseconds: time.wallNanoseconds(), arena: arena, scratch: scratch)
    }

    /// Takes a document's value out of memory, as the item pager does; false where it may not go.
    package func eject(_ key: String, from bucket: String) -> Bool {
        guard let engine = service.bucket(named: bucket)?.engine else { return false }
        let bytes = Array(key.utf8)
        let number = VBucketID(ofKey: bytes, count: engine.count).number
        let turn = turn
        return bytes.withUnsafeBytes { buffer in
            let view = ByteView(buffer)
            return engine[number]?.withCore {
                $0.eject(view, hash: engine.hash(view), turn) > 0
            } ?? false
        }
    }

    /// Takes out of memory whatever the bucket's policy and the disk allow.
    package func ejectAll(from bucket: String) {
        guard let engine = service.bucket(named: bucket)?.engine else { return }
        let turn = turn
        for vBucket in engine.all {
            let next = vBucket.withCore { core in
                core.ejectSlice(from: 0, groupsMax: .max / 2, threshold: .max, turn).next
            }
            require(next == nil, "one slice was to see everything")
        }
    }
}
