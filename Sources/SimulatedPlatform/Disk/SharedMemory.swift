internal import Bytes

/// What SQLite shares between the connections to one database in WAL mode: memory, and eight locks.
///
/// The connections live in one process, so plain memory does; it stays where it is as long as one
/// of them may look at it, a dead process's too.
final class SharedMemory {
    private var regions: [UnsafeMutableRawPointer] = []
    /// By lock: how many hold it together, or -1 where one holds it alone.
    private var holders = [Int](repeating: 0, count: 8)
    var users = 0

    deinit {
        for region in regions { Memory.free(region) }
    }

    func region(_ index: Int, bytes: Int, extends: Bool) -> UnsafeMutableRawPointer? {
        guard index < regions.count || extends else { return nil }
        while regions.count <= index {
            let region = Memory.allocate(bytes)
            region.initializeMemory(as: UInt8.self, repeating: 0, count: bytes)
            regions.append(region)
        }
        return regions[index]
    }

    func mayShare(_ lock: Int) -> Bool { holders[lock] >= 0 }

    func isFree(_ lock: Int) -> Bool { holders[lock] == 0 }

    func share(_ lock: Int) { holders[lock] += 1 }

    func take(_ lock: Int) { holders[lock] = -1 }

    func release(_ lock: Int) {
        if holders[lock] > 0 { holders[lock] -= 1 } else { holders[lock] = 0 }
    }
}
