internal import Bytes
package import Persistence
internal import Seams
internal import Vocabulary

/// Bucket directories without a bucket in service.
struct LeftoverDirectories {
    /// Names of deleted buckets whose directories could not be removed.
    var names: Set<String> = []
    /// The UUID with which a bucket of this name was last to be opened.
    var claims: [String: String] = [:]
}

/// Deleting buckets and their files.
///
/// - A bucket that is created again never uses the files of its predecessor. While these cannot be
///   put aside, its creation is refused with cause and remedy; the removal is retried once a
///   minute.
extension DocumentService {
    /// Closes a bucket and puts its files aside.
    ///
    /// A bucket that could not be opened is included, identified by its expected name and UUID.
    ///
    /// - Throws: `StorageError` if the files cannot be put aside; the removal is then retried.
    package func delete(_ name: String) throws(StorageError) {
        administration.acquire()
        defer { administration.release() }
        let claim = leftovers.withLock { $0.claims.removeValue(forKey: name) }
        guard let old = remove(name) else {
            guard try isAbandoned(name, claim) else { return }
            try putAside(name)
            return removeDeleted()
        }
        defer { tearDown(old) }
        guard let disk = old.disk else { return }
        disk.stop()
        do throws(StorageError) {
            try disk.store.delete()
        } catch {
            throw recordLeftover(name, error)
        }
        removeDeleted()
    }

    /// Notes that a bucket has moved away from this node: its clients are redirected.
    package func giveUp(_ name: String) { givenUp.withLock { _ = $0.insert(name) } }

    func isGivenUp(_ name: String) -> Bool { givenUp.withLock { $0.contains(name) } }

    /// Whether a directory without a bucket belongs to one that could not be opened.
    private func isAbandoned(_ name: String, _ claim: String?) throws(StorageError) -> Bool {
        guard let claim, try exists(name) else { return false }
        // Otherwise it belongs to an older bucket, which `leftovers` has, or to an unknown one.
        let found = try BucketStore.uuid(disk: environment.disk, directory: directory(of: name))
        return found == nil || found == claim
    }

    /// Puts aside a deleted bucket's files before a new bucket's files are created or opened.
    ///
    /// Files of another, unknown UUID count as a deleted bucket's only if every existing bucket is
    /// known (`isCurrent`): a node that was away may know less than its own files.
    func makeRoom(for settings: BucketSettings, isCurrent: Bool) throws(StorageError) {
        let isTaken = leftovers.withLock { leftovers in
            leftovers.claims[settings.name] = settings.uuid
            return leftovers.names.contains(settings.name)
        }
        if !isTaken {
            guard isCurrent, let other = try otherBucket(than: settings) else { return }
            environment.trace.warning(
                "storage",
                "\(directory(of: settings.name)) belongs to the deleted bucket \(other): "
                    + "removing it"
            )
        }
        try putAside(settings.name)
        removeDeleted()
    }

    /// The UUID of another bucket whose files are in a bucket's place; nil if there are none.
    private func otherBucket(than settings: BucketSettings) throws(StorageError) -> String? {
        guard try exists(settings.name) else { return nil }
        let place = directory(of: settings.name)
        let found = try BucketStore.uuid(disk: environment.disk, directory: place)
        return found == settings.uuid ? nil : found
    }

    /// Retries putting aside the files of deleted buckets.
    func retryDeletions() {
        guard !leftovers.withLock({ $0.names.isEmpty }) else { return }
        administration.acquire()
        defer { administration.release() }
        for name in leftovers.withLock({ $0.names.sorted() }) {
            do throws(StorageError) {
                try putAside(name)
            } catch {
                // The alert is still raised, and the next round retries.
                environment.trace.info("storage", error.description)
            }
        }
        removeDeleted()
    }

    private func putAside(_ name: String) throws(StorageError) {
        do throws(StorageError) {
            if try exists(name) {
                try BucketStore.delete(
                    disk: environment.disk,
                    directory: directory(of: name),
                    uuid: environment.entropy.hex(8)
                )
            }
        } catch {
            throw recordLeftover(name, error)
        }
        leftovers.withLock { _ = $0.names.remove(name) }
        alerts.clear("leftovers/\(name)")
    }

    private func exists(_ name: String) throws(StorageError) -> Bool {
        try bucketDirectories().contains(name)
    }

    private func bucketDirectories() throws(StorageError) -> [String] {
        do throws(DiskError) {
            return try environment.disk.list(bucketsDirectory)
        } catch {
            throw StorageError(.failed, error.description)
        }
    }

    /// Notes that files could not be put aside, and raises an alert.
    ///
    /// - Returns: The error for the caller.
    private func recordLeftover(_ name: String, _ error: StorageError) -> StorageError {
        let message =
            "The files of the deleted bucket \(name) cannot be put aside: \(error.description). "
            + "Until then no bucket of that name can be created. Allow this server to rename "
            + "\(directory(of: name)), or remove that directory"
        leftovers.withLock { _ = $0.names.insert(name) }
        alerts.raise("leftovers/\(name)", message + ".")
        return StorageError(error.code, message)
    }

    /// Removes the files of deleted buckets in the background.
    private func removeDeleted() {
        afterLanes { [environment, bucketsDirectory] in
            environment.tracingErrors { () throws(StorageError) in
                try BucketStore.removeDeleted(
                    disk: environment.disk,
                    dataDirectory: bucketsDirectory
                )
            }
        }
    }

    /// Removes the directories of unknown buckets, which a crash can leave.
    ///
    /// - Parameter names: The buckets to keep.
    ///
    /// - Throws: `StorageError` if the buckets' directory cannot be read.
    package func removeUnknownBuckets(keeping names: Set<String>) throws(StorageError) {
        administration.acquire()
        defer { administration.release() }
        for name in try bucketDirectories() where !names.contains(name) && !name.contains("~") {
            environment.tracingErrors { () throws(StorageError) in try putAside(name) }
        }
        removeDeleted()
    }
}

extension Environment {
    /// Runs work on files that is repeated later, or not needed: its error is only traced.
    func tracingErrors(_ body: () throws(StorageError) -> Void) {
        do throws(StorageError) {
            try body()
        } catch {
            trace.error("storage", error.description)
        }
    }
}
