internal import Bytes
internal import CSQLite
internal import Glibc

/// The C callbacks of a simulated disk.
extension SimulatedVFS {
    static func setCalls(of vfs: inout sqlite3_vfs) {
        vfs.xOpen = { vfs, name, handle, flags, flagsOut in
            guard let handle, let context = SimulatedVFS.context(vfs) else { return SQLITE_MISUSE }
            flagsOut?.pointee = flags
            return SimulatedVFS.open(
                context,
                name.map { String(cString: $0) },
                handle: handle,
                flags: flags
            )
        }
        vfs.xDelete = { vfs, name, syncsDirectory in
            guard let name, let disk = SimulatedVFS.context(vfs)?.disk else { return SQLITE_MISUSE }
            return SimulatedVFS.delete(
                disk,
                String(cString: name),
                syncsDirectory: syncsDirectory != 0
            )
        }
        vfs.xAccess = { vfs, name, _, result in
            guard let name, let disk = SimulatedVFS.context(vfs)?.disk else { return SQLITE_MISUSE }
            // As in the `unix` VFS, an empty file counts as missing.
            let size = disk.files[String(cString: name)]?.size ?? 0
            result?.pointee = size == 0 ? 0 : 1
            return SQLITE_OK
        }
        vfs.xFullPathname = { _, name, size, target in
            guard let name, let target else { return SQLITE_MISUSE }
            guard strlen(name) < Int(size) else { return SQLITE_CANTOPEN }
            strcpy(target, name)
            return SQLITE_OK
        }
        vfs.xRandomness = { vfs, count, target in
            guard let target, let disk = SimulatedVFS.context(vfs)?.disk else { return 0 }
            for index in 0..<Int(count) { target[index] = CChar(truncatingIfNeeded: disk.draw()) }
            return count
        }
        // Another connection holds a lock and cannot release it while this code runs, so waiting
        // only takes time.
        vfs.xSleep = { vfs, microseconds in
            SimulatedVFS.context(vfs)?.disk?.queue.stall(UInt64(max(0, microseconds)) * 1_000)
            return microseconds
        }
        vfs.xCurrentTimeInt64 = { vfs, result in
            guard let disk = SimulatedVFS.context(vfs)?.disk else { return SQLITE_MISUSE }
            // Julian day in milliseconds.
            let milliseconds = Int64(disk.clock.wallNanoseconds() / 1_000_000)
            result?.pointee = milliseconds + 210_866_760_000_000
            return SQLITE_OK
        }
        vfs.xCurrentTime = { vfs, result in
            guard let disk = SimulatedVFS.context(vfs)?.disk else { return SQLITE_MISUSE }
            result?.pointee = Double(disk.clock.wallNanoseconds()) / 86_400e9 + 2_440_587.5
            return SQLITE_OK
        }
        vfs.xGetLastError = { _, _, _ in 0 }
    }

    private static func open(
        _ context: Context,
        _ name: String?,
        handle: UnsafeMutablePointer<sqlite3_file>,
        flags: Int32
    ) -> Int32 {
        let opened = UnsafeMutableRawPointer(handle).bindMemory(to: FileHandle.self, capacity: 1)
        opened.pointee = FileHandle(base: sqlite3_file(pMethods: nil), file: nil)
        guard let disk = context.disk else { return SQLITE_CANTOPEN }
        let isCreation = flags & SQLITE_OPEN_CREATE != 0
        let path = name ?? "/temporary-\(disk.operations)"
        let decision = disk.operate(
            disk.epoch,
            nanoseconds: OpenFile.costOfRead,
            isChange: isCreation && disk.files[path] == nil
        )
        guard decision == .done else { return SQLITE_CANTOPEN }
        let isNew = disk.files[path] == nil
        guard !isNew || isCreation else { return SQLITE_CANTOPEN }
        guard !isNew || disk.directories.contains(SimulatedDisk.parent(of: path)) || name == nil
        else { return SQLITE_CANTOPEN }
        guard !isNew || disk.hasRoom(1) else { return SQLITE_FULL }
        let journals = SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_SUPER_JOURNAL | SQLITE_OPEN_WAL
        let file = OpenFile(
            disk.files[path] ?? disk.create(path),
            path: path,
            epoch: disk.epoch,
            disk: disk,
            isNewJournal: isNew && flags & journals != 0,
            isDeletedOnClose: name == nil || flags & SQLITE_OPEN_DELETEONCLOSE != 0
        )
        opened.pointee.file = Unmanaged.passRetained(file).toOpaque()
        opened.pointee.base.pMethods = context.methods
        return SQLITE_OK
    }

    private static func delete(
        _ disk: SimulatedDisk,
        _ path: String,
        syncsDirectory: Bool
    ) -> Int32 {
        let decision = disk.operate(
            disk.epoch,
            nanoseconds: OpenFile.costOfWrite,
            isChange: true
        )
        guard decision == .done else { return VFSCode.deleteFailed }
        disk.unlink(path)
        if syncsDirectory { disk.syncDirectory(SimulatedDisk.parent(of: path)) }
        return SQLITE_OK
    }

    /// The C callbacks of an open file.
    static var fileMethods: sqlite3_io_methods {
        var calls = sqlite3_io_methods()
        calls.iVersion = 2
        setByteCalls(of: &calls)
        setLockCalls(of: &calls)
        return calls
    }

    private static func setByteCalls(of calls: inout sqlite3_io_methods) {
        calls.xClose = { handle in
            guard let handle else { return SQLITE_MISUSE }
            let opened = UnsafeMutableRawPointer(handle).assumingMemoryBound(to: FileHandle.self)
            guard let pointer = opened.pointee.file else { return SQLITE_OK }
            opened.pointee.file = nil
            Unmanaged<OpenFile>.fromOpaque(pointer).takeRetainedValue().close()
            return SQLITE_OK
        }
        calls.xRead = { handle, target, count, offset in
            guard let target, let file = SimulatedVFS.file(handle) else { return SQLITE_MISUSE }
            return file.read(into: target, Int(count), at: Int(offset))
        }
        calls.xWrite = { handle, source, count, offset in
            guard let source, let file = SimulatedVFS.file(handle) else { return SQLITE_MISUSE }
            return file.write(ByteView(start: source, count: Int(count)), at: Int(offset))
        }
        calls.xTruncate = { handle, size in
            SimulatedVFS.file(handle)?.truncate(to: Int(size)) ?? SQLITE_MISUSE
        }
        calls.xSync = { handle, _ in SimulatedVFS.file(handle)?.sync() ?? SQLITE_MISUSE }
        calls.xFileSize = { handle, result in
            guard let size = SimulatedVFS.file(handle)?.size() else { return VFSCode.statFailed }
            result?.pointee = sqlite3_int64(size)
            return SQLITE_OK
        }
        calls.xFileControl = { _, _, _ in SQLITE_NOTFOUND }
        calls.xSectorSize = { _ in 4_096 }
        // A torn write changes no bytes outside its range, as the `unix` VFS assumes by default.
        calls.xDeviceCharacteristics = { _ in SQLITE_IOCAP_POWERSAFE_OVERWRITE }
    }

    private static func setLockCalls(of calls: inout sqlite3_io_methods) {
        calls.xLock = { handle, level in
            SimulatedVFS.file(handle)?.raise(to: level) ?? SQLITE_MISUSE
        }
        calls.xUnlock = { handle, level in
            SimulatedVFS.file(handle)?.lower(to: level)
            return SQLITE_OK
        }
        calls.xCheckReservedLock = { handle, result in
            result?.pointee = SimulatedVFS.file(handle)?.isReserved == true ? 1 : 0
            return SQLITE_OK
        }
        calls.xShmMap = { handle, index, size, extends, result in
            guard let file = SimulatedVFS.file(handle), file.isAlive else {
                return VFSCode.lockFailed
            }
            result?.pointee = UnsafeMutableRawPointer(
                mutating: file.mapMemory(Int(index), bytes: Int(size), extends: extends != 0)
            )
            return SQLITE_OK
        }
        calls.xShmLock = { handle, first, count, flags in
            let locks = Int(first)..<Int(first + count)
            return SimulatedVFS.file(handle)?.lockMemory(locks, flags) ?? SQLITE_MISUSE
        }
        calls.xShmBarrier = { _ in }
        calls.xShmUnmap = { handle, _ in
            SimulatedVFS.file(handle)?.unmapMemory()
            return SQLITE_OK
        }
    }
}
