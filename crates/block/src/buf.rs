//! Buffers: owned, page-aligned memory that a transfer can own while the kernel works on it.
//!
//! A [`Buf`] can be split into disjoint parts, which go to several devices at once, and joined again without a copy.
//! Why `unsafe`: parts of one allocation are handed out as separate `&mut [u8]`. The invariant, kept by `split_at`,
//! `narrow`, `join` and `lend`: the ranges of all `Buf`s over one allocation are disjoint, but for those that `lend`
//! made of one; these only ever give out `&[u8]`.
//!
//! A pool hands out memory of its *arena* first: one allocation that the executor registers with its ring, so that
//! the kernel need not look up and pin the pages of each transfer.
//!
//! A pool of single pages ([`BufPool::of_pages`]) cuts them from *regions* that it maps as it needs them, wastes nothing
//! beside them, and gives what is free back to the kernel page by page.

#![allow(unsafe_code)]

use std::alloc::{self, Layout};
use std::cell::RefCell;
use std::fmt;
use std::ops::{Deref, DerefMut, Range};
use std::ptr::NonNull;
use std::rc::Rc;

/// The unit of validity in the cache and the alignment of all buffers.
pub const PAGE_BYTES: usize = 4096;

/// The classes of allocations a pool keeps for reuse. Up to [`SMALL_PAGES_MAX`] each has twice the pages of the one
/// before; from there on four classes lie in each doubling, so that a block with its header wastes little.
const CLASSES: usize = 33;
const SMALL_PAGES_MAX: usize = 16;
/// The largest class: 8 MiB.
const PAGES_MAX: usize = 2048;

/// Bytes outside the arena that the free lists of a pool keep at most, unless it is told less; what is over goes back to the
/// kernel. The fills of a pool of the largest blocks hold a little less, so that they need no new memory while they go on.
pub(crate) const POOL_KEEPS_BYTES: usize = 128 << 20;

/// The most that is given back to the kernel at once: hosts wait meanwhile.
const RELEASE_BYTES_MAX: usize = 16 << 20;

/// One class takes at most this part of the arena, so that a burst of large buffers leaves some for the small ones.
const ARENA_SHARES: usize = 4;

/// Single pages are cut from regions of so many bytes.
const REGION_BYTES: usize = 4 << 20;

/// An owned, page-aligned, initialised byte buffer.
pub struct Buf {
    /// `None` only while it is being dropped.
    memory: Option<Rc<Memory>>,
    data: NonNull<u8>,
    len: usize,
    writers: Writers,
}

/// Who may write to a buffer's bytes. As large as a pointer: with less, a `Buf` would have bytes that mean nothing, and every
/// result with one in it would be moved in pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
enum Writers {
    Owner,
    /// Another `Buf` has the same bytes: they are not written any more.
    Nobody,
}

/// One allocation, or one piece of an arena. Freed, or given back to its pool, when the last `Buf` over it goes.
struct Memory {
    base: NonNull<u8>,
    capacity: usize,
    in_arena: bool,
    /// Set while the memory is in use; the arena lives at least as long.
    pool: Option<Rc<RefCell<FreeLists>>>,
}

impl Drop for Memory {
    fn drop(&mut self) {
        if !self.in_arena {
            release(self.base, self.capacity);
        }
    }
}

impl Buf {
    /// A buffer of zeroes that belongs to no pool.
    pub fn zeroed(len: usize) -> Self {
        let capacity = len.max(1).next_multiple_of(PAGE_BYTES);
        Self::over(Rc::new(Memory { base: allocate(capacity), capacity, in_arena: false, pool: None }), len)
    }

    fn over(memory: Rc<Memory>, len: usize) -> Self {
        Self { data: memory.base, memory: Some(memory), len, writers: Writers::Owner }
    }

    /// The part `start .. start + len` of this buffer; the rest is discarded.
    ///
    /// # Panics
    /// If the part is not inside the buffer.
    pub fn narrow(mut self, start: usize, len: usize) -> Self {
        assert!(start.checked_add(len).is_some_and(|end| end <= self.len), "narrow outside the buffer");
        self.data = offset(self.data, start);
        self.len = len;
        self
    }

    /// Two buffers: the first `at` bytes and the others.
    ///
    /// # Panics
    /// If `at` is past the end.
    pub fn split_at(mut self, at: usize) -> (Self, Self) {
        assert!(at <= self.len, "split outside the buffer");
        let tail = Self {
            memory: self.memory.clone(),
            data: offset(self.data, at),
            len: self.len - at,
            writers: self.writers,
        };
        self.len = at;
        (self, tail)
    }

    /// Two buffers over the same bytes, for two devices that store them. They can be read, not written.
    pub fn share(mut self) -> (Self, Self) {
        let twin = self.lend();
        (self, twin)
    }

    /// Another buffer over the same bytes, for whoever is to send them. From now on both can be read, not written.
    pub fn lend(&mut self) -> Self {
        self.writers = Writers::Nobody;
        Self { memory: self.memory.clone(), data: self.data, len: self.len, writers: Writers::Nobody }
    }

    /// Whether `next` is the part that follows this one in the same memory, so that they can be joined.
    pub fn is_followed_by(&self, next: &Self) -> bool {
        let same_memory = match (&self.memory, &next.memory) {
            (Some(own), Some(other)) => Rc::ptr_eq(own, other),
            (None, _) | (_, None) => false,
        };
        same_memory && offset(self.data, self.len) == next.data
    }

    /// Undoes `split_at`.
    ///
    /// # Panics
    /// If `next` is not the part that follows this one in the same memory.
    pub fn join(mut self, next: Self) -> Self {
        assert!(self.is_followed_by(&next), "joined buffers must be neighbours");
        self.len += next.len;
        if next.writers == Writers::Nobody {
            self.writers = Writers::Nobody;
        }
        self
    }
}

impl Deref for Buf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `data .. data + len` is inside the allocation (kept by the constructors above), the bytes are
        // initialised (`allocate` zeroes, pools never uninitialise), and no other `Buf` covers them, or all that do only
        // read them (the file's invariant).
        unsafe { std::slice::from_raw_parts(self.data.as_ptr(), self.len) }
    }
}

impl DerefMut for Buf {
    /// # Panics
    /// If the buffer is shared.
    fn deref_mut(&mut self) -> &mut [u8] {
        assert_eq!(self.writers, Writers::Owner, "a shared buffer is not written");
        // SAFETY: as in `deref`; `&mut self` makes this the only access to a range that no other `Buf` covers, for it is
        // not shared (checked above; `lend` marks both, and every part of them is marked too).
        unsafe { std::slice::from_raw_parts_mut(self.data.as_ptr(), self.len) }
    }
}

impl Drop for Buf {
    fn drop(&mut self) {
        let Some(mut memory) = self.memory.take() else { return };
        // Only the last part finds itself alone, and only pooled memory knows a pool.
        let Some(pool) = Rc::get_mut(&mut memory).and_then(|memory| memory.pool.take()) else { return };
        pool.borrow_mut().give_back(memory);
    }
}

impl fmt::Debug for Buf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buf({} bytes)", self.len)
    }
}

/// Reuses buffers. A handle: cloning it is cheap. What a taken buffer contains is unspecified (but initialised).
#[derive(Clone)]
pub struct BufPool {
    lists: Rc<RefCell<FreeLists>>,
}

impl Default for BufPool {
    fn default() -> Self {
        Self::new()
    }
}

impl BufPool {
    pub fn new() -> Self {
        Self::with_arena(0, POOL_KEEPS_BYTES)
    }

    /// A pool whose first buffers come from one allocation of `arena_bytes` bytes (rounded up to pages; 0 for none), and which
    /// keeps at most `kept_bytes` for reuse beside it.
    pub(crate) fn with_arena(arena_bytes: usize, kept_bytes: usize) -> Self {
        Self { lists: Rc::new(RefCell::new(FreeLists::new(arena_bytes, kept_bytes))) }
    }

    /// A pool of buffers of one page each, at most ([`Self::take`] of more comes from the allocator). What comes back stays until
    /// [`Self::release_pages`].
    pub fn of_pages() -> Self {
        let mut lists = FreeLists::new(0, 0);
        lists.regions = Some(Vec::new());
        Self { lists: Rc::new(RefCell::new(lists)) }
    }

    /// Gives the memory of free pages of a pool of pages back to the kernel, of so many at most; answers of how many.
    pub fn release_pages(&self, pages_max: usize) -> usize {
        self.lists.borrow_mut().release_pages(pages_max)
    }

    /// Gives half of the memory outside the arena back to the kernel that nobody has taken since this was last called, so that what a
    /// burst needed does not stay for ever; answers how many bytes.
    pub(crate) fn release_unused(&self) -> usize {
        self.lists.borrow_mut().release_unused()
    }

    /// The addresses of the arena, for registering it with a ring.
    pub(crate) fn arena(&self) -> Range<usize> {
        let lists = self.lists.borrow();
        lists.arena.as_ref().map_or(0..0, |arena| arena.base.addr().get()..arena.base.addr().get() + arena.capacity)
    }

    /// A buffer of `len` bytes whose contents are unspecified.
    pub fn take(&self, len: usize) -> Buf {
        let Some((class, pages)) = class_of(len) else { return Buf::zeroed(len) };
        let mut memory = self.lists.borrow_mut().take(class, pages * PAGE_BYTES);
        Rc::get_mut(&mut memory).expect("memory in the free lists has no other owner").pool =
            Some(Rc::clone(&self.lists));
        Buf::over(memory, len)
    }

    /// A buffer with these bytes.
    pub fn copy_of(&self, bytes: &[u8]) -> Buf {
        let mut buf = self.take(bytes.len());
        buf.copy_from_slice(bytes);
        buf
    }

    /// A buffer of `len` zeroes.
    pub fn take_zeroed(&self, len: usize) -> Buf {
        let mut buf = self.take(len);
        buf.fill(0);
        buf
    }
}

/// The smallest class that holds `len` bytes, and its pages; `None` if no class does.
fn class_of(len: usize) -> Option<(usize, usize)> {
    let pages = len.div_ceil(PAGE_BYTES).max(1);
    if pages > PAGES_MAX {
        return None;
    }
    let exponent = |pages: usize| usize::try_from(pages.ilog2()).expect("32 bits fit");
    if pages <= SMALL_PAGES_MAX {
        let pages = pages.next_power_of_two();
        return Some((exponent(pages), pages));
    }
    let doublings = exponent(pages - 1) - exponent(SMALL_PAGES_MAX);
    let below = SMALL_PAGES_MAX << doublings;
    let steps = (pages - below).div_ceil(below / 4);
    Some((exponent(SMALL_PAGES_MAX) + 4 * doublings + steps, below + steps * below / 4))
}

/// What a pool has: memory that came back, and what is left of the arena.
struct FreeLists {
    /// The last one that came back is the next to be taken.
    classes: [Vec<Rc<Memory>>; CLASSES],
    /// Of each class, how many were left at the least since unused memory was last released.
    least_free: [usize; CLASSES],
    kept_bytes: usize,
    kept_bytes_max: usize,
    arena: Option<Arena>,
    /// Of a pool of pages: where they are cut from, the last one not yet whole.
    regions: Option<Vec<Arena>>,
    /// Pages of regions whose memory the kernel has: zero when they are touched.
    released: Vec<Rc<Memory>>,
}

struct Arena {
    base: NonNull<u8>,
    capacity: usize,
    used: usize,
    used_by_class: [usize; CLASSES],
}

impl FreeLists {
    fn new(arena_bytes: usize, kept_bytes_max: usize) -> Self {
        let capacity = arena_bytes.next_multiple_of(PAGE_BYTES);
        let arena = (capacity > 0).then(|| Arena::new(capacity, &[libc::MADV_HUGEPAGE, libc::MADV_DONTFORK]));
        let (regions, released) = (None, Vec::new());
        Self {
            classes: [const { Vec::new() }; CLASSES],
            least_free: [0; CLASSES],
            kept_bytes: 0,
            kept_bytes_max,
            arena,
            regions,
            released,
        }
    }

    fn take(&mut self, class: usize, capacity: usize) -> Rc<Memory> {
        if let Some(memory) = self.classes[class].pop() {
            self.least_free[class] = self.least_free[class].min(self.classes[class].len());
            if !memory.in_arena {
                self.kept_bytes -= capacity;
            }
            return memory;
        }
        if capacity == PAGE_BYTES
            && let Some(memory) = self.take_page()
        {
            return memory;
        }
        let piece = self.arena.as_mut().and_then(|arena| arena.carve(class, capacity));
        let memory = match piece {
            Some(base) => Memory { base, capacity, in_arena: true, pool: None },
            None => Memory { base: allocate(capacity), capacity, in_arena: false, pool: None },
        };
        Rc::new(memory)
    }

    /// A page of a region; `None`: this is no pool of pages.
    fn take_page(&mut self) -> Option<Rc<Memory>> {
        let regions = self.regions.as_mut()?;
        if let Some(memory) = self.released.pop() {
            return Some(memory);
        }
        let cut = |region: &mut Arena| region.cut(PAGE_BYTES);
        let base = regions.last_mut().and_then(cut).unwrap_or_else(|| {
            regions.push(Arena::new(REGION_BYTES, &[libc::MADV_DONTFORK]));
            regions.last_mut().and_then(cut).expect("a new region has pages")
        });
        Some(Rc::new(Memory { base, capacity: PAGE_BYTES, in_arena: true, pool: None }))
    }

    fn release_pages(&mut self, pages_max: usize) -> usize {
        if self.regions.is_none() {
            return 0;
        }
        let free = &mut self.classes[0];
        let (first, before) = (free.len().saturating_sub(pages_max), self.released.len());
        self.released.extend(free.extract_if(first.., |memory| release_page(memory)));
        self.released.len() - before
    }

    fn release_unused(&mut self) -> usize {
        let before = self.kept_bytes;
        for (free, least) in self.classes.iter_mut().zip(&mut self.least_free) {
            // What was not taken lies where the list begins.
            let unused = free[..*least].iter().filter(|memory| !memory.in_arena).count();
            let mut left = unused.div_ceil(2);
            free.retain(|memory| {
                let goes = left > 0 && !memory.in_arena && before - self.kept_bytes < RELEASE_BYTES_MAX;
                if goes {
                    left -= 1;
                    self.kept_bytes -= memory.capacity;
                }
                !goes
            });
            *least = free.len();
        }
        before - self.kept_bytes
    }

    fn give_back(&mut self, memory: Rc<Memory>) {
        if !memory.in_arena {
            if self.kept_bytes + memory.capacity > self.kept_bytes_max {
                return;
            }
            self.kept_bytes += memory.capacity;
        }
        let (class, _) = class_of(memory.capacity).expect("pooled memory has the size of a class");
        self.classes[class].push(memory);
    }
}

impl Arena {
    /// In huge pages, if it is advised and the kernel has them: the processor finds what lies in them faster, and the kernel
    /// describes a batch of 512 KiB to its device in one piece instead of 128.
    ///
    /// A child process gets none of it (`MADV_DONTFORK`): pages that a ring has registered are pinned, and the kernel would copy
    /// each of them while a child is made (`fork(2)`), all threads waiting that need another page meanwhile.
    fn new(capacity: usize, advices: &[i32]) -> Self {
        let base = allocate(capacity);
        if is_mapped(capacity) {
            for advice in advices.iter().copied() {
                // SAFETY: the mapping is this arena's; what it holds does not change, and no child uses it.
                let _ = unsafe { libc::madvise(base.as_ptr().cast(), capacity, advice) };
            }
        }
        Self { base, capacity, used: 0, used_by_class: [0; CLASSES] }
    }

    /// Memory for one buffer of `class`, if the class has room left in its share.
    fn carve(&mut self, class: usize, bytes: usize) -> Option<NonNull<u8>> {
        let share_is_used = self.used_by_class[class] + bytes > self.capacity / ARENA_SHARES;
        if share_is_used {
            return None;
        }
        let base = self.cut(bytes)?;
        self.used_by_class[class] += bytes;
        Some(base)
    }

    /// The next `bytes` bytes that nobody has had.
    fn cut(&mut self, bytes: usize) -> Option<NonNull<u8>> {
        if self.used + bytes > self.capacity {
            return None;
        }
        let base = offset(self.base, self.used);
        self.used += bytes;
        Some(base)
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // Every buffer over the arena holds the pool that owns it, so none is left.
        release(self.base, self.capacity);
    }
}

fn offset(base: NonNull<u8>, bytes: usize) -> NonNull<u8> {
    NonNull::new(base.as_ptr().wrapping_add(bytes)).expect("an address inside an allocation is not null")
}

fn layout(capacity: usize) -> Layout {
    Layout::from_size_align(capacity, PAGE_BYTES).expect("buffer sizes are far below the limit of Layout")
}

/// Whether so much memory comes from the kernel itself, and goes back to it.
fn is_mapped(capacity: usize) -> bool {
    capacity > SMALL_PAGES_MAX * PAGE_BYTES
}

/// Zeroed memory. Much of it comes from the kernel itself, which zeroes a page when it is first used: the allocator, asked
/// for aligned memory, writes all of it at once.
fn allocate(capacity: usize) -> NonNull<u8> {
    let base = if is_mapped(capacity) {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping touches no memory of ours.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), capacity, access, kind, -1, 0) };
        if base == libc::MAP_FAILED { std::ptr::null_mut() } else { base.cast() }
    } else {
        // SAFETY: the layout is not of zero size: every caller rounds up to at least one page.
        unsafe { alloc::alloc_zeroed(layout(capacity)) }
    };
    NonNull::new(base).unwrap_or_else(|| alloc::handle_alloc_error(layout(capacity)))
}

fn release(base: NonNull<u8>, capacity: usize) {
    if is_mapped(capacity) {
        // SAFETY: `base` came from `mmap` in `allocate` with the same capacity, and its owner drops it.
        let result = unsafe { libc::munmap(base.as_ptr().cast(), capacity) };
        assert_eq!(result, 0, "a mapping of ours can be taken away");
    } else {
        // SAFETY: `base` came from the allocator in `allocate` with the same capacity, and its owner (`Memory` or `Arena`)
        // drops it.
        unsafe { alloc::dealloc(base.as_ptr(), layout(capacity)) }
    }
}

/// Gives the memory of a free page of a region back to the kernel; whether that took it.
fn release_page(memory: &Memory) -> bool {
    // What is locked, as by `mlockall(2)`, goes by the second advice alone (madvise(2), since Linux 5.18).
    [libc::MADV_DONTNEED, libc::MADV_DONTNEED_LOCKED].into_iter().any(|advice| {
        // SAFETY: the page is of a region's mapping, which its pool owns, and no `Buf` is over it: it is in the free lists. It
        // reads as zeroes from now on, which is initialised.
        let result = unsafe { libc::madvise(memory.base.as_ptr().cast(), PAGE_BYTES, advice) };
        result == 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn split_parts_are_disjoint_and_join_without_a_copy() {
        let mut whole = BufPool::new().take_zeroed(3 * PAGE_BYTES);
        whole[PAGE_BYTES] = 7;
        let address = whole.as_ptr();
        let (mut head, mut tail) = whole.split_at(PAGE_BYTES);
        head.fill(1);
        tail[1] = 2;
        let whole = head.join(tail);
        assert_eq!(whole.as_ptr(), address);
        assert_eq!((whole[0], whole[PAGE_BYTES], whole[PAGE_BYTES + 1]), (1, 7, 2));
    }

    #[test]
    fn a_pool_reuses_what_comes_back() {
        let pool = BufPool::new();
        let first = pool.take(5000).as_ptr();
        assert_eq!(pool.take(8192).as_ptr(), first);
    }

    #[test]
    fn memory_comes_back_only_when_its_last_part_is_dropped() {
        let pool = BufPool::new();
        let (head, tail) = pool.take(8192).split_at(4096);
        let address = head.as_ptr();
        drop(head);
        assert_ne!(pool.take(8192).as_ptr(), address, "the tail is still in use");
        drop(tail);
        assert!([pool.take(8192), pool.take(8192)].iter().any(|buf| buf.as_ptr() == address));
    }

    #[test]
    fn an_arena_serves_each_class_up_to_its_share_and_then_the_allocator_does() {
        let pool = BufPool::with_arena(16 * PAGE_BYTES, POOL_KEEPS_BYTES);
        let arena = pool.arena();
        let inside = |buf: &Buf| arena.contains(&buf.as_ptr().addr());
        let small: Vec<Buf> = (0..6).map(|_| pool.take(1)).collect();
        assert_eq!(small.iter().filter(|buf| inside(buf)).count(), 4);
        assert!(inside(&pool.take(2 * PAGE_BYTES)), "another class has its own share");
        drop(small);
        drop(pool);
    }

    /// Flags of mappings are in proc(5), `VmFlags` of `smaps`: "dc" is what a child process gets no copy of.
    #[test]
    fn a_child_process_gets_no_copy_of_an_arena() {
        let pool = BufPool::with_arena(4 << 20, POOL_KEEPS_BYTES);
        let start = pool.arena().start;
        let mappings = std::fs::read_to_string("/proc/self/smaps").expect("there is /proc");
        let holds = |line: &str| {
            let (from, to) = line.split_whitespace().next()?.split_once('-')?;
            let number = |text| usize::from_str_radix(text, 16).ok();
            Some((number(from)?..number(to)?).contains(&start))
        };
        let mut mapping = mappings.lines().skip_while(|line| holds(line) != Some(true));
        let flags = mapping.find(|line| line.starts_with("VmFlags:")).expect("the arena is a mapping");
        assert!(flags.split_whitespace().any(|flag| flag == "dc"), "{flags}");
    }

    #[test]
    fn a_buffer_outlives_its_pool() {
        let buf = BufPool::with_arena(64 * PAGE_BYTES, POOL_KEEPS_BYTES).take_zeroed(100);
        assert_eq!(buf[99], 0);
    }

    #[test]
    fn classes_hold_what_is_asked_for_and_waste_little() {
        let mut largest = None;
        for pages in 1..=PAGES_MAX {
            let (class, held) = class_of(pages * PAGE_BYTES).expect("there is a class up to 8 MiB");
            assert!(held >= pages && (held < 2 * pages && pages <= 16 || 4 * held <= 5 * pages + 3), "{pages}: {held}");
            assert_eq!(class_of(held * PAGE_BYTES), Some((class, held)), "what is given back finds its class");
            assert!(
                largest.is_none_or(|(last, size)| class == last && held == size || class == last + 1 && held > size)
            );
            largest = Some((class, held));
        }
        assert_eq!(largest, Some((CLASSES - 1, PAGES_MAX)));
        assert_eq!([0, 1, 4096, 4097].map(class_of), [Some((0, 1)), Some((0, 1)), Some((0, 1)), Some((1, 2))]);
        assert_eq!([(8 << 20) + 1, usize::MAX].map(class_of), [None, None]);
    }

    #[test]
    fn large_memory_is_zero_before_it_is_written() {
        let mut buf = BufPool::new().take(3 << 20);
        assert!(buf.iter().all(|byte| *byte == 0));
        buf.fill(1);
    }

    #[test]
    fn memory_of_shared_buffers_comes_back_when_both_are_dropped() {
        let pool = BufPool::new();
        let mut buf = pool.take(4096);
        buf.fill(9);
        let address = buf.as_ptr();
        let (one, other) = buf.share();
        drop(one);
        assert_ne!(pool.take(4096).as_ptr(), address, "the other is still in use");
        assert_eq!((other[0], other.len()), (9, 4096));
        drop(other);
        pool.take(4096).fill(1);
    }

    #[test]
    fn what_is_lent_stays_until_its_lender_and_all_borrowers_are_gone() {
        let pool = BufPool::of_pages();
        let mut page = pool.take(PAGE_BYTES);
        page.fill(5);
        let address = page.as_ptr();
        let (one, other) = (page.lend(), page.lend());
        drop((page, one));
        assert_ne!(pool.take(PAGE_BYTES).as_ptr(), address, "one borrower is left");
        assert!(other.iter().all(|byte| *byte == 5));
        drop(other);
        assert_eq!(pool.take(PAGE_BYTES).as_ptr(), address);
    }

    #[test]
    fn pages_lie_close_together_and_what_is_free_goes_back_to_the_kernel() {
        let pool = BufPool::of_pages();
        let mut pages: Vec<Buf> = (0..REGION_BYTES / PAGE_BYTES + 1).map(|_| pool.take(PAGE_BYTES)).collect();
        assert_eq!(pages[1].as_ptr().addr() - pages[0].as_ptr().addr(), PAGE_BYTES);
        pages.iter_mut().for_each(|page| page.fill(7));
        assert_eq!(pool.release_pages(usize::MAX), 0, "all are in use");
        let kept = pages.split_off(3);
        drop(pages);
        assert_eq!((pool.release_pages(2), pool.release_pages(2), pool.release_pages(2)), (2, 1, 0));
        let again: Vec<Buf> = (0..3).map(|_| pool.take(PAGE_BYTES)).collect();
        assert!(again.iter().all(|page| page.iter().all(|byte| *byte == 0)), "the kernel gave other memory");
        assert!(kept.iter().all(|page| page.iter().all(|byte| *byte == 7)));
        assert_eq!(BufPool::new().release_pages(9), 0);
    }

    /// As `mlockall(2)` does, of as much as anybody may lock.
    #[test]
    fn pages_that_are_locked_go_back_to_the_kernel_too() {
        let pool = BufPool::of_pages();
        let mut page = pool.take(PAGE_BYTES);
        page.fill(7);
        // SAFETY: locking a page of the pool's mapping changes nothing that is in it.
        let locked = unsafe { libc::mlock(page.as_ptr().cast(), PAGE_BYTES) };
        assert_eq!(locked, 0, "a page may be locked");
        drop(page);
        assert_eq!(pool.release_pages(usize::MAX), 1);
        let page = pool.take(PAGE_BYTES);
        assert!(page.iter().all(|byte| *byte == 0), "the kernel gave other memory");
    }

    #[test]
    fn what_a_burst_needed_goes_back_to_the_kernel_and_what_is_used_stays() {
        let pool = BufPool::with_arena(1 << 20, POOL_KEEPS_BYTES);
        let take = |count: usize| -> Vec<Buf> { (0..count).map(|_| pool.take(1 << 20)).collect() };
        drop(take(8));
        assert_eq!(pool.release_unused(), 0, "it was in use a moment ago");
        drop(take(2));
        assert_eq!(pool.release_unused(), 3 << 20, "half of the six that nobody has taken since");
        let used = take(5);
        assert_eq!(pool.release_unused(), 0);
        drop(used);
        let kept = |pool: &BufPool| pool.lists.borrow().kept_bytes;
        (0..4).for_each(|_| _ = pool.release_unused());
        assert_eq!(kept(&pool), 0);
        drop(take(40));
        pool.release_unused();
        assert_eq!(pool.release_unused(), RELEASE_BYTES_MAX, "no more at once");
        assert_eq!(kept(&pool), (40 << 20) - RELEASE_BYTES_MAX);
    }

    #[test]
    #[should_panic(expected = "shared")]
    fn a_shared_buffer_is_not_written() {
        let (mut one, _other) = BufPool::new().take(10).share();
        one[0] = 1;
    }

    #[test]
    #[should_panic(expected = "neighbours")]
    fn parts_that_are_no_neighbours_do_not_join() {
        let pool = BufPool::new();
        let _ = pool.take(10).join(pool.take(10));
    }
}
