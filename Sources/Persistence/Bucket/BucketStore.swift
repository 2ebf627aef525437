internal import Bytes
package import Seams
package import Vocabulary

/// The disk side of one bucket: a directory with a generation of lane files.
///
/// ```
/// <data>/<bucket>/bucket.divan                   which generation counts
/// <data>/<bucket>/generation-3/lane-00.sqlite    vBuckets 0, 4, 8 ...
/// ```
///
/// - vBucket v lives in lane v mod lanes, fixed when the bucket is made.
/// - `flush()` and `delete()` are a rename or two, whatever the size; removing the old files is a
///   call of its own, for a place where slowness hurts nobody.
/// - The caller holds the claim on the data directory: one process writes.
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
    /// Files of earlier generations, to be removed.
    private let leftovers = Guarded<[String]>([])

    /// Opens a bucket's files, or makes them.
    ///
    /// A lane whose file is damaged or lost is closed (`LaneStore.closedBy` says why), and the
    /// others serve. A file that is somebody else's, or a later Divan's, is an error.
    ///
    /// - Parameters:
    ///   - disk: The seam.
    ///   - directory: The bucket's own directory, which need not exist.
    ///   - name: The bucket's name, for people who look into the files.
    ///   - uuid: The bucket's UUID: files of a bucket with another one are refused.
    ///   - settings: `lanes` counts for new buckets only.
    ///   - now: Seconds since 1970, for the name of a damaged file that is put aside.
    /// - Throws: What makes the bucket unusable as a whole.
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
                        + "vBuckets, not to \(uuid) with \(settings.vBuckets): it is left alone; "
                        + "move it away to use the name for another bucket"
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
        let store = BucketStore(disk, directory, name, settings, file)
        try store.removeUnknown()
        try store.openLanes(now: now)
        return store
    }

    private init(
        _ disk: any Disk,
        _ directory: String,
        _ name: String,
        _ settings: StoreSettings,
        _ file: BucketFile
    ) {
        self.disk = disk
        self.directory = directory
        self.name = name
        self.settings = settings
        state = Guarded(State(file: file, lanes: []))
    }

    // MARK: Lanes

    /// The lanes of the present generation; after a flush they are others.
    package var lanes: [LaneStore] { state.withLock { $0.lanes } }

    package func lane(of vBucket: VBucketID) -> LaneStore {
        let number = Int(vBucket.number) % settings.lanes
        return state.withLock { $0.lanes[number] }
    }

    /// Every vBucket that is stored, with the lanes that were not stopped cleanly.
    package func records() throws(StorageError) -> (records: [VBucketRecord], unclean: Set<Int>) {
        var records: [VBucketRecord] = []
        var unclean: Set<Int> = []
        for lane in lanes where lane.closedBy == nil {
            records += try lane.records()
            if !lane.wasClean { unclean.insert(lane.number) }
        }
        return (records.sorted { $0.id < $1.id }, unclean)
    }

    /// Before the first change is acknowledged: a crash from here on is told from a clean stop.
    package func markRunning() throws(StorageError) {
        for lane in lanes where lane.closedBy == nil { try lane.markRunning() }
    }

    /// After the last commit: nothing acknowledged is missing from the files.
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
                try self?.noteCreated(number, generation)
            }
        }
    }

    /// From here on a missing file of this lane is a loss.
    private func noteCreated(_ lane: Int, _ generation: UInt64) throws(StorageError) {
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

    /// Opens a lane; a damaged file is put aside under a name that says so.
    private func open(_ lane: LaneStore, isListed: Bool, now: UInt64) throws(StorageError) {
        // A file that is not listed was being made when the process died: its first transaction
        // was not acknowledged, and making it again is safe.
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

    /// Gives a closed lane a new, empty file: what it held is lost here, and comes from elsewhere.
    package func recreate(_ number: Int) throws(StorageError) {
        let old = lanes[number]
        precondition(old.closedBy != nil, "only a closed lane is made anew")
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

    /// Empties the bucket: a new generation counts from here on, the old lanes are closed.
    ///
    /// Call `removeLeftovers()` afterwards, where slowness hurts nobody.
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
                try goBack(to: state.file, state.lanes, after: error)
            }
            let old = state.lanes
            state.file = file
            state.lanes = makeLanes(file)
            return (old, before)
        }
        for lane in old { lane.close(StorageError(.gone, "the bucket was flushed")) }
        retired.withLock { $0 += old }
        // Last: the removal of an earlier flush's files takes what it finds here, and a lane that
        // does not know yet that it is closed would take the loss for an error of the disk.
        leftovers.withLock { $0.append(before) }
    }

    /// The new generation may be there, and the next start would remove the one that goes on.
    private func goBack(
        to file: BucketFile,
        _ lanes: [LaneStore],
        after error: StorageError
    ) throws(StorageError) -> Never {
        do throws(StorageError) {
            try file.write(disk, directory)
        } catch {
            // Nobody knows which one a start would find: nothing more is written to either.
            for lane in lanes {
                lane.close(
                    StorageError(.quarantined, "the bucket was half flushed: \(error.description)")
                )
            }
        }
        throw error
    }

    /// Removes what flushes left behind: as slow as there are files.
    ///
    /// Each generation goes under a name of its own first: a bucket that is deleted and made again
    /// meanwhile has a generation in the same place.
    package func removeLeftovers() throws(StorageError) {
        for lane in retired.take() { lane.abandon() }
        while let path = try putAside() {
            try storage { () throws(DiskError) in try disk.remove(path) }
        }
    }

    private func putAside() throws(StorageError) -> String? {
        let uuid = state.withLock(\.file.uuid)
        return try leftovers.withLock { (paths) throws(StorageError) in
            guard let path = paths.popLast() else { return nil }
            let name = path.split(separator: "/").last ?? ""
            let aside = "\(directory)\(BucketStore.deletedMark)\(uuid)-\(name)"
            try storage { () throws(DiskError) in try disk.rename(path, to: aside) }
            return aside
        }
    }

    private let retired = Guarded<[LaneStore]>([])

    /// Removes generations that do not count: a crash left them.
    private func removeUnknown() throws(StorageError) {
        let current = state.withLock { BucketFile.directory(of: $0.file.generation) }
        try storage { () throws(DiskError) in
            for name in try disk.list(directory)
            where name.hasPrefix("generation-") && name != current {
                try disk.remove("\(directory)/\(name)")
            }
        }
    }

    /// Takes the bucket's directory out of sight; it is removed by `removeDeleted`.
    package func delete() throws(StorageError) {
        let lanes = lanes
        for lane in lanes { lane.close(StorageError(.gone, "the bucket was deleted")) }
        // They go with the directory; their places may soon be another bucket's.
        leftovers.withLock { $0 = [] }
        retired.withLock { $0 += lanes }
        // Nobody comes back to them, even where the directory stays.
        defer { for lane in retired.take() { lane.abandon() } }
        try BucketStore.delete(disk: disk, directory: directory, uuid: state.withLock(\.file.uuid))
    }

    /// Whose files a directory has; nil where it has none that say.
    package static func uuid(disk: any Disk, directory: String) throws(StorageError) -> String? {
        do throws(StorageError) {
            return try BucketFile.read(disk, directory)?.uuid
        } catch  where error.code == .damaged {
            return nil
        }
    }

    /// The same for a bucket that is not open.
    package static func delete(
        disk: any Disk,
        directory: String,
        uuid: String
    ) throws(StorageError) {
        try storage { () throws(DiskError) in
            try disk.rename(directory, to: "\(directory)\(deletedMark)\(uuid)")
        }
    }

    /// Removes deleted buckets from a data directory: as slow as there are files.
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

    /// No bucket name may contain a tilde.
    static let deletedMark = "~deleted-"
}

extension Guarded where Value == [LaneStore] {
    fileprivate func take() -> Value {
        withLock { value in
            defer { value = [] }
            return value
        }
    }
}
