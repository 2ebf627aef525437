internal import Bytes
internal import CSQLite
internal import Glibc
internal import Synchronization

/// The SQLite VFS of one simulated disk: runs the product's SQLite on simulated files.
///
/// - Registered under its own name, never as the default, so the default VFS of the process remains
///   the real one.
/// - The callbacks are plain C functions; the structure passed to them identifies the disk.
final class SimulatedVFS {
    let name: String
    private let context: Context
    private let vfs: UnsafeMutablePointer<sqlite3_vfs>
    private let methods: UnsafeMutablePointer<sqlite3_io_methods>
    private let cName: UnsafeMutablePointer<CChar>?
    /// Numbers the VFS names, which are global to the process; several worlds may exist at a time.
    private static let count = Atomic<Int>(0)

    init(disk: SimulatedDisk) {
        let number = SimulatedVFS.count.add(1, ordering: .relaxed).newValue
        name = "divan-simulated-\(number)"
        cName = strdup(name)
        methods = .allocate(capacity: 1)
        methods.initialize(to: SimulatedVFS.fileMethods)
        vfs = .allocate(capacity: 1)
        vfs.initialize(to: sqlite3_vfs())
        vfs.pointee.iVersion = 2
        vfs.pointee.szOsFile = Int32(MemoryLayout<FileHandle>.size)
        vfs.pointee.mxPathname = 512
        vfs.pointee.zName = cName.map { UnsafePointer($0) }
        context = Context(disk: disk, methods: methods)
        vfs.pointee.pAppData = Unmanaged.passRetained(context).toOpaque()
        SimulatedVFS.setCalls(of: &vfs.pointee)
        sqlite3_vfs_register(vfs, 0)
    }

    /// Unregisters the name and releases the disk.
    ///
    /// The C structures stay allocated, because handles that were never closed point to them.
    func unregister() {
        sqlite3_vfs_unregister(vfs)
        context.disk = nil
    }

    /// Seeds SQLite's random generator.
    ///
    /// The generator is global to the process and seeds itself from the default VFS, so a VFS with
    /// the seed is the default for the duration of one draw.
    static func seedRandomness(seed: UInt64) {
        let before = sqlite3_vfs_find(nil)
        var dice = sqlite3_vfs()
        dice.iVersion = 1
        dice.szOsFile = Int32(MemoryLayout<FileHandle>.size)
        dice.mxPathname = 512
        dice.xRandomness = { vfs, count, target in
            guard let target, let seed = vfs?.pointee.pAppData else { return 0 }
            var random = SeededRandom(seed: seed.load(as: UInt64.self))
            for index in 0..<Int(count) {
                target[index] = CChar(truncatingIfNeeded: random.next())
            }
            return count
        }
        var seed = seed
        "divan-dice".withCString { name in
            withUnsafeMutablePointer(to: &seed) { seed in
                withUnsafeMutablePointer(to: &dice) { dice in
                    dice.pointee.zName = name
                    dice.pointee.pAppData = UnsafeMutableRawPointer(seed)
                    sqlite3_vfs_register(dice, 1)
                    sqlite3_randomness(0, nil)
                    var thrown: UInt8 = 0
                    sqlite3_randomness(1, &thrown)
                    sqlite3_vfs_unregister(dice)
                }
            }
        }
        if let before { sqlite3_vfs_register(before, 1) }
    }

    /// The context from which the callbacks find the disk.
    final class Context {
        var disk: SimulatedDisk?
        let methods: UnsafePointer<sqlite3_io_methods>

        init(disk: SimulatedDisk, methods: UnsafePointer<sqlite3_io_methods>) {
            self.disk = disk
            self.methods = methods
        }
    }

    /// SQLite's structure of an open file.
    struct FileHandle {
        var base: sqlite3_file
        var file: UnsafeMutableRawPointer?
    }

    static func context(_ vfs: UnsafeMutablePointer<sqlite3_vfs>?) -> Context? {
        guard let data = vfs?.pointee.pAppData else { return nil }
        return Unmanaged<Context>.fromOpaque(data).takeUnretainedValue()
    }

    static func file(_ handle: UnsafeMutablePointer<sqlite3_file>?) -> OpenFile? {
        guard let handle else { return nil }
        let opened = UnsafeMutableRawPointer(handle).assumingMemoryBound(to: FileHandle.self)
        return opened.pointee.file.map {
            Unmanaged<OpenFile>.fromOpaque($0).takeUnretainedValue()
        }
    }
}

/// SQLite's extended result codes: C macros that Swift does not import.
enum VFSCode {
    static let readFailed = SQLITE_IOERR | 1 << 8
    static let shortRead = SQLITE_IOERR | 2 << 8
    static let writeFailed = SQLITE_IOERR | 3 << 8
    static let syncFailed = SQLITE_IOERR | 4 << 8
    static let truncateFailed = SQLITE_IOERR | 6 << 8
    static let statFailed = SQLITE_IOERR | 7 << 8
    static let deleteFailed = SQLITE_IOERR | 10 << 8
    static let noMemory = SQLITE_IOERR | 12 << 8
    static let lockFailed = SQLITE_IOERR | 15 << 8
}
