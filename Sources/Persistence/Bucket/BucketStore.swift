internal import Bytes
package import Seams
package import Vocabulary

/// The disk side of one bucket: a directory with a generation of lane files.
///
/// ```
/// <data>/<bucket>/bucket.divan                   names the current generation
/// <data>/<bucket>/generation-3/lane-00.sqlite    vBuckets 0, 4, 8 ...
/// ```
///
/// - vBucket v is stored in lane v mod lanes; the number of lanes is fixed when the bucket is
///   created.
/// - `flush()` and `delete()` cost one or two renames, whatever the size. Removing the old files is
///   a separate, slow call.
/// - The caller holds the lock on the data directory: only one process writes.
package final class BucketStore: Sendable {
    private struct State {
        var file: BucketFile
        var lanes: [LaneStore]
    }

    package let directory: String
    package let settings: StoreSettings
    private let disk: any Disk
    private let name: String
    private let state: Guarded<State>
    /// Directories of earlier generations, to be removed.
    private let leftovers = Guarded<[String]>([])

    /// Opens a bucket's files, or creates them.
    ///
    /// A lane whose file is damaged or missing is closed (`LaneStore.closedBy` has the reason); the
    /// other lanes serve.
    ///
    /// - Parameters:
    ///   - disk: The disk seam.
    ///   - directory: The bucket's own directory; created if it does not exist.
    ///   - name: The bucket's name, stored in the files for operators.
    ///   - uuid: The bucket's UUID. Files with another UUID are refused.
    ///   - settings: `lanes` applies to new buckets only.
    ///   - now: Seconds since 1970, for the name of a damaged file that is put aside.
    /// - Throws: `StorageError` if the whole bucket is unusable: `.foreign` if the files belong to
    ///   another bucket, `.otherFormat` if another version wrote them, `.damaged` if `bucket.divan` is
    ///   damaged, or a disk error.
    /// - Returns: The bucket, ready for `records()`, `markRunning()` and commits.
    package static func open(
        disk: any Disk,
        directory: String,
        name: String,
        uuid: String,
        settings: StoreSettings,
        now: UInt64
    ) throws(StorageError) -> BucketStore {
        try storage { () throws(DiskError) in try disk.createDirectory(directory) }
        var settings = settings
        let file: BucketFile
        if let found = try BucketFile.read(disk, directory) {
            guard found.uuid == uuid, found.vBuckets == settings.vBuckets else {
                throw StorageError(
                    .foreign,
                    "\(directory) belongs to bucket \(found.uuid) with \(found.vBuckets) "
                        + "vBuckets, not to \(uuid) with \(settings.vBuckets). It was not changed. "
                        + "Move it away to use the name for another bucket."
                )
            }
            settings.lanes = found.lanes
            file = found
        } else {
            let lanes = settings.lanes
            file = BucketFile(
                uuid: uuid,
                generation: 1,
                lanes: lanes,
                vBuckets: settings.vBuckets
            )
            try file.write(disk, directory)
        }
        let store = BucketStore(disk, directory, name: name, settings: settings, file: file)
        try store.removeUnknown()
        try store.openLanes(now: now)
        return store
    }

    private init(
        _ disk: any Disk,
        _ directory: String,
        name: String,
        settings: StoreSettings,
        file: BucketFile
    ) {
        self.disk = disk
        self.directory = directory
        self.name = name
        self.settings = settings
        state = Guarded(State(file: file, lanes: []))
    }

    // MARK: Lanes

    /// The lanes of the current generation, by number.
    ///
    /// A flush replaces them.
    package var lanes: [LaneStore] { state.withLock { $0.lanes } }

    /// The lane that stores `vBucket`.
    package func lane(of vBucket: VBucketID) -> LaneStore {
        let number = Int(vBucket.number) % settings.lanes
        return state.withLock { $0.lanes[number] }
    }

    /// The stored record of every vBucket, by number, and the lanes that were not stopped cleanly.
    ///
    /// Closed lanes contribute nothing.
    ///
    /// - Throws: `StorageError` if a lane's records cannot be read.
    package func records() throws(StorageError) -> (records: [VBucketRecord], unclean: Set<Int>) {
        var records: [VBucketRecord] = []
        var unclean: Set<Int> = []
        for lane in lanes where lane.closedBy == nil {
            records += try lane.records()
            if !lane.wasClean { unclean.insert(lane.number) }
        }
        return (records.sorted { $0.id < $1.id }, unclean)
    }

    /// Marks all open lanes as running, so that the next start detects a crash.
    ///
    /// Called before the first change is acknowledged.
    ///
    /// - Throws: `StorageError` if a lane's file cannot be written.
    package func markRunning() throws(StorageError) {
        for lane in lanes where lane.closedBy == nil { try lane.markRunning() }
    }

    /// Marks all open lanes as cleanly stopped and closes their files.
    ///
    /// Called after the last commit: every acknowledged change must be in the files.
    ///
    /// - Throws: `StorageError` if a lane's file cannot be written.
    package func closeCleanly() throws(StorageError) {
        for lane in lanes where lane.closedBy == nil { try lane.closeCleanly() }
    }

    private func makeLanes(_ file: BucketFile) -> [LaneStore] {
        (0..<file.lanes).map { number in
            let generation = file.generation
            return LaneStore(
                disk: disk,
                path: file.path(of: number, in: directory),
                identity: LaneIdentity(name: name, file: file, lane: number),
                settings: settings,
                exists: file.files.contains(number)
            ) { [weak self] () throws(StorageError) in
                try self?.recordCreated(number, generation)
            }
        }
    }

    /// Lists the lane's file in `bucket.divan`, so that the next start detects the loss of the
    /// file.
    private func recordCreated(_ lane: Int, _ generation: UInt64) throws(StorageError) {
        try state.withLock { (state) throws(StorageError) in
            guard state.file.generation == generation else {
                throw StorageError(.gone, "the bucket was flushed")
            }
            guard !state.file.files.contains(lane) else { return }
            var file = state.file
            file.files.insert(lane)
            try file.write(disk, directory)
            state.file = file
        }
    }

    private func openLanes(now: UInt64) throws(StorageError) {
        let file = state.withLock { $0.file }
        let generation = "\(directory)/\(BucketFile.directory(of: file.generation))"
        let names = try storage { () throws(DiskError) in
            try disk.createDirectory(generation)
            return try disk.list(generation)
        }
        let lanes = makeLanes(file)
        for lane in lanes {
            let path = file.path(of: lane.number, in: directory)
            let fileName = String(path.split(separator: "/").last ?? "")
            let isThere = names.contains(fileName)
            if !isThere, file.files.contains(lane.number) {
                let aside = names.first { $0.hasPrefix(fileName + ".damaged-") }
                let reason = aside.map { "was put aside as \($0)" } ?? "is missing"
                lane.close(StorageError(.quarantined, "\(path) \(reason)"))
            } else if isThere {
                try open(lane, isListed: file.files.contains(lane.number), now: now)
            }
        }
        state.withLock { $0.lanes = lanes }
    }

    /// Opens a lane.
    ///
    /// A damaged file is renamed to `*.damaged-<now>` and the lane is closed.
    private func open(_ lane: LaneStore, isListed: Bool, now: UInt64) throws(StorageError) {
        // If the file is not listed, the process died while creating it. Its first transaction was
        // not acknowledged, so it is safe to create the file again.
        guard isListed else { return }
        do {
            try lane.open()
        } catch  where error.code == .damaged {
            let aside = "\(lane.path).damaged-\(now)"
            lane.abandon()
            try storage { () throws(DiskError) in
                for suffix in ["-shm", "-wal", ""] {
                    let size = try disk.size(lane.path + suffix)
                    if size > 0 || suffix.isEmpty {
                        try disk.rename(lane.path + suffix, to: aside + suffix)
                    }
                }
            }
            lane.close(
                StorageError(.quarantined, "put aside as \(aside): \(error.description)")
            )
        }
    }

    /// Replaces a closed lane by an empty one without a file.
    ///
    /// Its data is lost on this node; the caller restores it from other copies.
    ///
    /// - Throws: `StorageError` if the old files or `bucket.divan` cannot be changed.
    package func recreate(_ number: Int) throws(StorageError) {
        let old = lanes[number]
        precondition(old.closedBy != nil, "only a closed lane is recreated")
        old.abandon()
        try state.withLock { (state) throws(StorageError) in
            var file = state.file
            file.files.remove(number)
            try file.write(disk, directory)
            state.file = file
            let path = old.path
            try storage { () throws(DiskError) in
                for suffix in ["-shm", "-wal", ""] { try disk.remove(path + suffix) }
            }
            state.lanes[number] = makeLanes(file)[number]
        }
    }

    // MARK: Flush, delete

    /// Empties the bucket: starts a new generation and closes the old lanes.
    ///
    /// Call `removeLeftovers()` afterwards, off the time-critical path.
    ///
    /// - Throws: `StorageError` if the new generation cannot be written. The bucket then continues
    ///   with the old generation; if the old `bucket.divan` cannot be written back, all lanes are
    ///   closed.
    package func flush() throws(StorageError) {
        let (old, before) = try state.withLock { (state) throws(StorageError) in
            let before = "\(directory)/\(BucketFile.directory(of: state.file.generation))"
            var file = state.file
            file.generation += 1
            file.files = []
            try storage { () throws(DiskError) in
                let path = "\(directory)/\(BucketFile.directory(of: file.generation))"
                try disk.createDirectory(path)
            }
            do throws(StorageError) {
                try file.write(disk, directory)
            } catch {
                try restore(state.file, state.lanes, after: error)
            }
            let old = state.lanes
            state.file = file
            state.lanes = makeLanes(file)
            return (old, before)
        }
        for lane in old { lane.close(StorageError(.gone, "the bucket was flushed")) }
        retired.withLock { $0 += old }
        // Appended last: a concurrent `removeLeftovers` removes every directory listed here. A lane
        // that is not closed yet would report the loss of its file as a disk error.
        leftovers.withLock { $0.append(before) }
    }

    /// Writes the old `bucket.divan` back after a failed flush: the new one may be on disk, and the
    /// next start would then remove the generation that is still in use.
    private func restore(
        _ file: BucketFile,
        _ lanes: [LaneStore],
        after error: StorageError
    ) throws(StorageError) -> Never {
        do throws(StorageError) {
            try file.write(disk, directory)
        } catch {
            // It is unknown which generation the next start would use, so neither may be written.
            for lane in lanes {
                lane.close(
                    StorageError(.quarantined, "the bucket was half flushed: \(error.description)")
                )
            }
        }
        throw error
    }

    /// Removes the files of earlier generations; takes time proportional to their number and size.
    ///
    /// Each generation is renamed to a unique name first: if the bucket is deleted and created
    /// again meanwhile, a generation of the new bucket has the same path.
    ///
    /// - Throws: `StorageError` if a directory cannot be renamed or removed.
    package func removeLeftovers() throws(StorageError) {
        for lane in retired.withLock({ exchange(&$0, with: []) }) { lane.abandon() }
        while let path = try renameLeftover() {
            try storage { () throws(DiskError) in try disk.remove(path) }
        }
    }

    /// Renames one leftover directory; returns its new path, or nil if none is left.
    private func renameLeftover() throws(StorageError) -> String? {
        let uuid = state.withLock(\.file.uuid)
        return try leftovers.withLock { (paths) throws(StorageError) in
            guard let path = paths.popLast() else { return nil }
            let name = path.split(separator: "/").last ?? ""
            let aside = "\(directory)\(BucketStore.deletedMark)\(uuid)-\(name)"
            try storage { () throws(DiskError) in try disk.rename(path, to: aside) }
            return aside
        }
    }

    /// Closed lanes whose connections are still open.
    private let retired = Guarded<[LaneStore]>([])

    /// Removes generations other than the current one, left over from a crash.
    private func removeUnknown() throws(StorageError) {
        let current = state.withLock { BucketFile.directory(of: $0.file.generation) }
        try storage { () throws(DiskError) in
            for name in try disk.list(directory)
            where name.hasPrefix("generation-") && name != current {
                try disk.remove("\(directory)/\(name)")
            }
        }
    }

    /// Closes the lanes and renames the bucket's directory; `removeDeleted` removes it later.
    ///
    /// - Throws: `StorageError` if the directory cannot be renamed.
    package func delete() throws(StorageError) {
        let lanes = lanes
        for lane in lanes { lane.close(StorageError(.gone, "the bucket was deleted")) }
        // Leftovers are renamed with the directory; another bucket may soon use their paths.
        leftovers.withLock { $0 = [] }
        retired.withLock { $0 += lanes }
        // The lanes are not used again, even if the rename fails.
        defer { for lane in retired.withLock({ exchange(&$0, with: []) }) { lane.abandon() } }
        try BucketStore.delete(disk: disk, directory: directory, uuid: state.withLock(\.file.uuid))
    }

    /// The UUID of the bucket whose files a directory has; nil if `bucket.divan` is missing or
    /// damaged.
    ///
    /// - Throws: `StorageError` if `bucket.divan` cannot be read or another version wrote it.
    package static func uuid(disk: any Disk, directory: String) throws(StorageError) -> String? {
        do throws(StorageError) {
            return try BucketFile.read(disk, directory)?.uuid
        } catch  where error.code == .damaged {
            return nil
        }
    }

    /// Renames the directory of a bucket that is not open; `removeDeleted` removes it later.
    ///
    /// - Throws: `StorageError` if the directory cannot be renamed.
    package static func delete(
        disk: any Disk,
        directory: String,
        uuid: String
    ) throws(StorageError) {
        try storage { () throws(DiskError) in
            try disk.rename(directory, to: "\(directory)\(deletedMark)\(uuid)")
        }
    }

    /// Removes deleted buckets from a data directory; takes time proportional to their files.
    ///
    /// - Throws: `StorageError` if a directory cannot be listed or removed.
    package static func removeDeleted(
        disk: any Disk,
        dataDirectory: String
    ) throws(StorageError) {
        try storage { () throws(DiskError) in
            for name in try disk.list(dataDirectory) where name.contains(deletedMark) {
                try disk.remove("\(dataDirectory)/\(name)")
            }
        }
    }

    /// Part of the name of a deleted bucket's directory.
    ///
    /// Bucket names contain no tilde, so the name cannot be a bucket's.
    static let deletedMark = "~deleted-"
}
