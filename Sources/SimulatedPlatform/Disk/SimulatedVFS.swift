internal import Bytes
internal import CSQLite
internal import Glibc
internal import Synchronization

/// SQLite's door to one simulated disk: the SQLite that we ship, on files that forget.
///
/// - Registered under a name of its own, never as the default: whoever asks for the default file
///   system in this process gets the real one.
/// - The callbacks are plain C functions; which disk they mean is in the structure that they get.
final class SimulatedVFS {
    let name: String
    private let context: Context
    private let vfs: UnsafeMutablePointer<sqlite3_vfs>
    private let methods: UnsafeMutablePointer<sqlite3_io_methods>
    private let cName: UnsafeMutablePointer<CChar>?
    /// Names are the process's, and worlds may live side by side.
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

    /// Takes the name away.
    ///
    /// The structures stay: handles that were never closed point to them. The disk goes.
    func unregister() {
        sqlite3_vfs_unregister(vfs)
        context.disk = nil
    }

    /// Has SQLite's own dice fall by the seed.
    ///
    /// They are the process's, not a connection's, and are loaded from the default file system, so
    /// ours is the default for the length of one throw.
    static func loadDice(seed: UInt64) {
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

    /// What the callbacks find the disk by.
    final class Context {
        var disk: SimulatedDisk?
        let methods: UnsafePointer<sqlite3_io_methods>

        init(disk: SimulatedDisk, methods: UnsafePointer<sqlite3_io_methods>) {
            self.disk = disk
            self.methods = methods
        }
    }

    /// What SQLite keeps of an open file.
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

/// SQLite's result codes that are made of two: C macros that Swift cannot see.
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
