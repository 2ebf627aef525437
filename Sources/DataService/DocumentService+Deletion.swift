internal import Bytes
package import Persistence
internal import Seams
internal import Vocabulary

/// What is known of bucket directories that no bucket in service has.
struct Remains {
    /// Of deleted buckets, by name, that would not go.
    var names: Set<String> = []
    /// The UUID that a bucket of this name had when it was last to be opened.
    var claims: [String: String] = [:]
}

/// Taking buckets away, and their files after them.
///
/// - A bucket that is made anew never finds the files of the one before: as long as those cannot be
///   put aside, it is refused, with cause and cure; they are tried again once a minute.
extension DocumentService {
    /// Takes a bucket out of service and its files out of sight.
    ///
    /// Also for a bucket that could not be opened, by the name and UUID that it should have had.
    package func delete(_ name: String) throws(StorageError) {
        administration.acquire()
        defer { administration.release() }
        let claim = remains.withLock { $0.claims.removeValue(forKey: name) }
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
            throw noteRemains(name, error)
        }
        removeDeleted()
    }

    /// The bucket goes on without this node: who still asks here is sent to the others.
    package func giveUp(_ name: String) { givenUp.withLock { _ = $0.insert(name) } }

    func isGivenUp(_ name: String) -> Bool { givenUp.withLock { $0.contains(name) } }

    /// Whether a directory that no bucket has belonged to one that was never opened.
    private func isAbandoned(_ name: String, _ claim: String?) throws(StorageError) -> Bool {
        guard let claim, try exists(name) else { return false }
        // Of an older one, which is remembered as such, or of nobody we know.
        let found = try BucketStore.uuid(disk: environment.disk, directory: directory(of: name))
        return found == nil || found == claim
    }

    /// Before a bucket's files are made or opened: what a deleted one left there has to go first.
    ///
    /// Files of another UUID that nobody remembers are such only where it is known of all buckets
    /// which there are (`isCurrent`): a node that was away may know less than its own files.
    func makeRoom(for settings: BucketSettings, isCurrent: Bool) throws(StorageError) {
        let isTaken = remains.withLock { remains in
            remains.claims[settings.name] = settings.uuid
            return remains.names.contains(settings.name)
        }
        if !isTaken {
            guard isCurrent, let other = try otherBucket(than: settings) else { return }
            environment.trace.warning(
                "storage",
                "\(directory(of: settings.name)) is left of bucket \(other), which was deleted: "
                    + "its files go"
            )
        }
        try putAside(settings.name)
        removeDeleted()
    }

    /// Whose files are in the place of a bucket's; nil where there are none, or its own.
    private func otherBucket(than settings: BucketSettings) throws(StorageError) -> String? {
        guard try exists(settings.name) else { return nil }
        let place = directory(of: settings.name)
        let found = try BucketStore.uuid(disk: environment.disk, directory: place)
        return found == settings.uuid ? nil : found
    }

    /// Tries again to put aside what deleted buckets left.
    func retryDeletions() {
        guard !remains.withLock({ $0.names.isEmpty }) else { return }
        administration.acquire()
        defer { administration.release() }
        for name in remains.withLock({ $0.names.sorted() }) {
            do throws(StorageError) {
                try putAside(name)
            } catch {
                // The alert stands, and there will be another time.
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
            throw noteRemains(name, error)
        }
        remains.withLock { _ = $0.names.remove(name) }
        alerts.clear("remains/\(name)")
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

    /// Remembers that files are in the way, and says so to whoever asked and to the operator.
    private func noteRemains(_ name: String, _ error: StorageError) -> StorageError {
        let message =
            "The files of the deleted bucket \(name) cannot be put aside: \(error.description). "
            + "Until they are, no bucket of that name can be made: see to it that this server may "
            + "rename \(directory(of: name)), or remove that directory"
        remains.withLock { _ = $0.names.insert(name) }
        alerts.raise("remains/\(name)", message + ".")
        return StorageError(error.code, message)
    }

    /// Removes what deleted buckets left behind, where slowness hurts nobody.
    private func removeDeleted() {
        afterLanes { [environment, bucketsDirectory] in
            do throws(StorageError) {
                try BucketStore.removeDeleted(
                    disk: environment.disk,
                    dataDirectory: bucketsDirectory
                )
            } catch {
                environment.trace.error("storage", error.description)
            }
        }
    }

    /// Removes buckets that a crash left behind: none of `names` is theirs.
    package func removeStrangers(keeping names: Set<String>) throws(StorageError) {
        administration.acquire()
        defer { administration.release() }
        for name in try bucketDirectories() where !names.contains(name) && !name.contains("~") {
            do throws(StorageError) {
                try putAside(name)
            } catch {
                environment.trace.error("storage", error.description)
            }
        }
        removeDeleted()
    }
}
